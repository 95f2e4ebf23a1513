"""Everything that uses MLflow."""
