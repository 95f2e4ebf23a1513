"""The request: the schema of a sweep file, loading and dumping, the ready-made files."""
