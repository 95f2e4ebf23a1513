"""Reads sweeps in a storage."""
