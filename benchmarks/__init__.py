"""Measurements that print a table; each module says how to run it."""
