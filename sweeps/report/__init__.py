"""``calsweep report``: one HTML file that shows what a sweep found."""

from sweeps.report.page import write_report

__all__ = ["write_report"]
