"""What to run next and what is best: writes nothing, knows no Ray, MLflow, torch or terminal."""
