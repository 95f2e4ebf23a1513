"""Recorded trials, on which search policies are replayed in seconds."""
