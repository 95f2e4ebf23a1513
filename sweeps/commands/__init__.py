"""The commands: each parses, calls and prints. Heavy imports are inside the functions."""
