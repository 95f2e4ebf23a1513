"""All of the workers' that leans on undocumented behaviour of Ray, as sweeps.cluster.internals."""

from typing import Any

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


def data_parallel_trainer() -> Any:
    """The class that ``TorchTrainer`` adds PyTorch to, less two processes that serve nobody here.

    One is for Ray's own kind of data. The other gives back what a dead trial had reserved, but only
    once its workers have started, and asks Ray's dashboard, which a cluster need not have; see
    :func:`give_back_abandoned_places`. Each takes two seconds of CPU before a trial can begin.

    Leans on: where the class lies (it is Ray's "DeveloperAPI"; ``ray.train.data_parallel_trainer``
        has the one of Train's first version), and on ``_create_default_callbacks``.
    Why: :class:`~trainables.wrappers.process_group.ProcessGroup` sets PyTorch up, and no setting
        turns the callbacks off.
    Since: Ray 2.60, the oldest that is allowed.
    Test: tests/sweeps/test_several_workers.py::test_no_more_processes_than_it_takes
    """
    from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
    from ray.train.v2._internal.callbacks.placement_group_callback import (
        PlacementGroupCleanerCallback,
    )
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    class BareTrainer(DataParallelTrainer):
        def _create_default_callbacks(self) -> list[Any]:
            spared = DatasetsCallback, PlacementGroupCleanerCallback
            return [
                callback
                for callback in super()._create_default_callbacks()
                if not isinstance(callback, spared)
            ]

    return BareTrainer


def give_back_abandoned_places() -> bool:
    """Remove this job's placement groups whose makers are dead: nobody else will.

    Ray Train reserves the places of a trial's workers from a process of its own, and whatever kills
    that leaves them reserved for as long as the job lasts.

    Returns:
        Whether there are others, whose makers live.

    Leans on: ``ray._private.state`` and the fields of ``PlacementGroupTableData``.
    Why: Ray removes a group only once its job has ended too, and nothing public tells who made a
        group.
    Since: Ray 2.60, the oldest that is allowed.
    Test: tests/sweeps/test_several_workers.py::test_places_whose_maker_died_are_given_back
    """
    import ray
    from ray._private.state import state
    from ray.core.generated.gcs_pb2 import PlacementGroupTableData
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    job, others = ray.get_runtime_context().get_job_id(), False
    for data in state._connect_and_get_accessor().get_placement_group_table():
        group = PlacementGroupTableData.FromString(data)
        if (
            group.state == PlacementGroupTableData.REMOVED
            or group.creator_job_id.hex() != job
            or group.is_detached
            or ray.ActorID(group.creator_actor_id).is_nil()  # the driver's own: Tune's
        ):
            continue
        if group.creator_actor_dead:
            remove_placement_group(PlacementGroup(ray.PlacementGroupID(group.placement_group_id)))
        else:
            others = True
    return others
