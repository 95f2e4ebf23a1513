"""Checks a sweep and plans it before it runs."""
