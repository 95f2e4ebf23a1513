"""The sweep file: its schema, loading and dumping, and the ready-made files."""
