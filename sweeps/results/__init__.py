"""Results of a sweep as data, words and pictures."""
