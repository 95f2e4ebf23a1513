"""Judges existing predictions: reading, metrics, the page."""
