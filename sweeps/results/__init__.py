"""Results of a sweep as data, text and figures."""
