"""Judging predictions that already exist: reading them, what they are worth, the page."""
