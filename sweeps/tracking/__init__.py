"""MLflow, and nothing else of calsweep, is spoken to from here."""
