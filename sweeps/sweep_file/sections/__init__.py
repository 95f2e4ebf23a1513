"""The sections of a sweep file."""
