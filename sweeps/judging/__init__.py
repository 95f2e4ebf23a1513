"""Judges predictions that already exist: reading, metrics, the page."""
