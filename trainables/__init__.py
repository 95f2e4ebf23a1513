"""The workers of calsweep: losses, metrics, models, data, the training loop."""
