"""What came out, as data, words and pictures."""
