"""Everything that uses Ray on the driver."""

ANNOUNCEMENT = "calsweep:"
"""Prefix of the name of the placement group by which a sweep announces itself."""
