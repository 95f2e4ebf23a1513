"""The Ray Tune wrapper: one trial on one device, in an actor that the next trial reuses."""

import math
import time
import traceback

from trainables.runtime.collection import collection_paused

with collection_paused():  # collections would take a fifteenth of the time
    import ray
    import torch
    from ray import tune
    from threadpoolctl import threadpool_limits

    from trainables.contract.config import TrialSetup
    from trainables.contract.messages import Failed, TrialConfig, Waiting, to_tune
    from trainables.data.core.base import Data
    from trainables.runtime.devices import DeviceFailedError, release_memory
    from trainables.trials.making import make_run
    from trainables.trials.trial import TrialRun
    from trainables.wrappers.ray_internals import draining_nodes
    from trainables.wrappers.worker import SECONDS_BETWEEN_TRIES, Warned

_SECONDS_BETWEEN_QUESTIONS = 2.0  # between checks for draining nodes


class NodeDrainsError(RuntimeError):
    """Ray has announced that the node of this process is draining."""


class TuneTrial(tune.Trainable):
    """Runs a trial (:func:`~trainables.trials.making.make_run`), one epoch per step.

    Its checkpoints are in its folder in the storage of the sweep, where the next actor finds them;
    Tune stores none. An exception in a step would happen again, so the trial fails. It is retried
    only if its process dies, its accelerator has failed, or its node is draining.
    """

    _run: TrialRun | None = None
    _asked = -math.inf

    def setup(
        self,
        config: dict[str, object],
        dataset: Data | None = None,
        trial_setup: TrialSetup | None = None,
    ) -> None:
        """Called once per actor; the dataset is a view into Ray's object store."""
        assert dataset is not None and trial_setup is not None
        threadpool_limits(trial_setup.threads)  # a forked process has those of the other one
        self._warned = Warned()
        self._dataset = dataset
        self._trial_setup = trial_setup
        # The first GPU assigned by Ray. If none is assigned, GPUs of others may still be visible.
        self._device = torch.device("cuda", 0) if ray.get_gpu_ids() else torch.device("cpu")
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, object]) -> bool:
        """Switch to another trial."""
        if self._run is not None:
            self._run.close()
            self._run = None
            release_memory(self._device)
        config = TrialConfig.from_tune(new_config)
        self._run = make_run(self._dataset, self._trial_setup, config, self._device)
        return True

    def cleanup(self) -> None:
        """Called before the actor ends."""
        if self._run is not None:
            self._run.close()

    def _check_node(self) -> None:
        now = time.monotonic()
        if now - self._asked > _SECONDS_BETWEEN_QUESTIONS:
            self._asked = now
            if ray.get_runtime_context().get_node_id() in draining_nodes():
                raise NodeDrainsError("this node will go; the trial resumes on another one")

    def step(self) -> dict[str, object]:
        """Train one epoch; see :func:`~trainables.contract.messages.to_tune`.

        Raises:
            DeviceFailedError: The process can no longer use its accelerator; Tune ends it.
            NodeDrainsError: The node is draining; Tune ends the process.
        """
        assert self._run is not None
        self._check_node()
        try:
            report = self._run.advance()
        except DeviceFailedError:
            raise
        except Exception as error:
            report = Failed(f"{type(error).__name__}: {error}", traceback.format_exc())
        if isinstance(report, Waiting):
            time.sleep(SECONDS_BETWEEN_TRIES)
        return to_tune(self._warned.added_to(report))
