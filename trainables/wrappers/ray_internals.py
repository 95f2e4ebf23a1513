"""Uses of Ray's private APIs by trials, under the rule of :mod:`sweeps.cluster.ray_internals`."""

from trainables.runtime.hosts import provides

TRAIN_SETTINGS = {
    # How often reports, the end and the death of a worker are looked for; 2 s is Ray's default.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    # A process that would announce the end of a machine to workers; they can be killed at any time.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    # A week of waiting for places, because Ray counts this wait and workers that fail as one.
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(7 * 24 * 3600),
}
"""Environment variables of the process of a trial of several workers.

``train.RunConfig`` has no arguments for them. Ray ignores those that it does not know.
"""


def draining_nodes() -> frozenset[str]:
    """The ids of draining nodes, such as preempted spot instances or idle nodes.

    Why: no public API reports this before the node is gone, and a trial would lose its epoch.
    Test: tests/sweeps/test_faults.py::test_trials_leave_a_node_that_drains
    """
    if not provides("leaving nodes that drain", "ray._private.state:state.get_draining_nodes"):
        return frozenset()
    from ray._private.state import state

    return frozenset(state.get_draining_nodes())


def release_abandoned_placement_groups() -> bool:
    """Removes placement groups of this job whose creators are dead; returns whether others live.

    Ray Train reserves the resources of a trial's workers in a separate process. If that is killed,
    they remain reserved until the job ends.

    Why: Ray removes a group only when its job ends, and no public API reports the creator of a
    group. The cleanup of Ray Train starts too late and needs Ray's dashboard.
    Upstream: ray-project/ray#54305, ray-project/ray#58515.
    Test: tests/sweeps/test_several_workers.py::test_placement_groups_of_dead_creators_are_released
    """
    if not provides(
        "giving back places that dead trials had reserved",
        "ray._private.state:state._connect_and_get_accessor",
        "ray.core.generated.gcs_pb2:PlacementGroupTableData",
    ):
        return False
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
