"""Results of a sweep as data and text."""
