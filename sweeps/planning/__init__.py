"""What would be run, and whether it can."""
