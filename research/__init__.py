"""Ideas that were tried on recorded trials and not adopted; the gate neither checks nor tests them.

Their figures are in `benchmarks/results`, mostly search.md, replays.md and findings.md.
"""
