"""Sweeps as jobs of a Ray cluster: submitted, listed, stopped."""
