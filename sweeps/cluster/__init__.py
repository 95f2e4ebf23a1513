"""Everything Ray."""
