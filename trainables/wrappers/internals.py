"""All of the workers' that leans on undocumented behaviour of Ray, as sweeps.cluster.internals."""

import os
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
    """The class that ``TorchTrainer`` adds PyTorch to.

    Leans on: where it lies. It is Ray's "DeveloperAPI"; ``ray.train.data_parallel_trainer`` has the
        one of Train's first version.
    Why: :class:`~trainables.wrappers.process_group.ProcessGroup` sets PyTorch up.
    Since: Ray 2.60, the oldest that is allowed.
    Test: tests/sweeps/test_several_workers.py::test_two_workers_give_what_one_gives
    """
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    return DataParallelTrainer


def keep_train_to_this_cluster() -> None:
    """Have what Ray Train starts from here ask this cluster whether a trial is alive.

    Its processes ask whichever cluster they find. Beside another one on the machine that may be the
    other, which knows no such trial: its places were taken from it. Or they find two and ask none.

    Leans on: ``ENV_VARS_TO_PROPAGATE``, and on this variable going before ``RAY_ADDRESS`` and what
        is found.
    Why: neither ``train.RunConfig`` nor ``TorchTrainer`` takes an environment for its controller.
    Since: Ray 2.60, the oldest that is allowed.
    Test: tests/sweeps/test_several_workers.py::test_another_ray_on_the_machine_is_left_alone
    """
    import ray
    from ray.train.v2._internal import constants

    os.environ["RAY_API_SERVER_ADDRESS"] = ray.get_runtime_context().gcs_address
    constants.ENV_VARS_TO_PROPAGATE.add("RAY_API_SERVER_ADDRESS")


def give_back_abandoned_places() -> None:
    """Remove this job's placement groups whose makers are dead: nobody else will.

    Ray Train reserves the places of a trial's workers from a process of its own, and whatever kills
    that before all workers have started leaves them reserved for good: no trial gets them any more.

    Leans on: ``ray._private.state`` and the fields of ``PlacementGroupTableData``.
    Why: Ray removes a group only once its job has ended too, Train's own cleaner hears of a group
        only once its workers have started, and nothing public tells who made a group.
    Since: Ray 2.60, the oldest that is allowed.
    Test: tests/sweeps/test_several_workers.py::test_places_whose_maker_died_are_given_back
    """
    import ray
    from ray._private.state import state
    from ray.core.generated.gcs_pb2 import PlacementGroupTableData
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    job = ray.get_runtime_context().get_job_id()
    for data in state._connect_and_get_accessor().get_placement_group_table():
        group = PlacementGroupTableData.FromString(data)
        of_an_actor = not ray.ActorID(group.creator_actor_id).is_nil()  # else the driver's: Tune's
        abandoned = of_an_actor and group.creator_actor_dead and not group.is_detached
        removed = group.state == PlacementGroupTableData.REMOVED
        if abandoned and not removed and group.creator_job_id.hex() == job:
            remove_placement_group(PlacementGroup(ray.PlacementGroupID(group.placement_group_id)))
