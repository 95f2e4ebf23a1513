"""Numbers with intervals: what a sweep has shown."""
