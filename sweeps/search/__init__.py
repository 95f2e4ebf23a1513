"""Decides what to run next and what is best. Writes nothing; imports no Ray, MLflow or torch."""
