"""Checks and plans of a sweep before it runs."""
