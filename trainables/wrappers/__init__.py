"""One thin wrapper each for Ray Tune (one process) and Ray Train (several workers)."""
