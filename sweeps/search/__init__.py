"""Decides what to run next and what is best. Writes no files; imports no Ray, MLflow or torch."""
