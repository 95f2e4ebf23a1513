"""Files that ``calsweep init`` writes."""
