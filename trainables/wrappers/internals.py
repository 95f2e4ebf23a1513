"""All of the workers' that leans on undocumented behaviour of Ray, as sweeps.cluster.internals."""

TRAIN_SETTINGS = {
    # How often reports, the end and the death of a worker are looked for; 2 s is Ray's default.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    # A process that would tell workers of their machine's end: they are ready for it at any time.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
}
"""Environment variables of the process of a trial of several workers.

Leans on: their names and meanings.
Why: ``train.RunConfig`` has no arguments for them.
Since: Ray 2.60, the oldest that is allowed.
Test: tests/sweeps/cluster/test_internals.py::test_ray_still_reads_what_is_set
"""
