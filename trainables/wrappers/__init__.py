"""Thin wrappers for Ray Tune (one process) and Ray Train (several workers)."""
