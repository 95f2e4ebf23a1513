"""Confidence intervals of metrics, and of differences between settings; see `docs/intervals.md`."""
