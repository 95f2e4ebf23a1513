"""The service of calsweep: sweep files, running, results, the command."""
