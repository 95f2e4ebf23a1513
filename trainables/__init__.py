"""The code of workers: losses, metrics, models, data, the training loop."""
