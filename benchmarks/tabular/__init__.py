"""Recorded trials, on which any policy of search is replayed in seconds."""
