"""The backend that trains on a Ray cluster, with Ray Tune."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sweeps.cluster import connection
from sweeps.messages.formatting import resume_command
from sweeps.messages.reporter import Reporter
from sweeps.planning.gpu_share import Gpu

if TYPE_CHECKING:
    from sweeps.search.trial_queue import TrialQueue
    from sweeps.store.sweep_store import SweepStore
    from trainables.contract.config import TrialSetup
    from trainables.data.core.base import Data


_SECONDS: Final = 5.0  # between two calls, and for an answer
_MOST_FAILURES: Final = 2  # in a row; Ray ends the driver after a minute


@dataclass(frozen=True)
class RayTune:
    """Trains concurrently on the Ray cluster at an address, or on this machine.

    See :class:`~sweeps.service.backend.Backend`. Ray is imported when it is needed. If it `stays`,
    it runs on for the next sweep of this process.
    """

    address: str | None = None
    stays: bool = False

    @property
    def label(self) -> str:
        return f"the cluster at {self.address}" if self.address else "this machine"

    @property
    def start(self) -> str:
        return f"joining Ray at {self.address}" if self.address else "starting Ray"

    def started(self, reporter: Reporter) -> AbstractContextManager[None]:
        return connection.connected(self.address, reporter, stays=self.stays)

    def nodes(self) -> list[dict[str, float]]:
        return connection.all_nodes()

    def weakest_gpu(self, reporter: Reporter) -> Gpu | None:
        from sweeps.cluster.hardware import weakest_gpu

        return weakest_gpu(reporter)

    def cpus_have_bfloat16(self) -> bool:
        from sweeps.cluster.hardware import cpus_have_bfloat16

        return cpus_have_bfloat16()

    def run(
        self,
        queue: TrialQueue,
        setup: TrialSetup,
        data: Data,
        store: SweepStore,
        reporter: Reporter,
    ) -> None:
        from sweeps.cluster.tuner import tune

        with self._head_watched(store, reporter):
            tune(queue, setup, data, store, reporter)

    def _head_watched(self, store: SweepStore, reporter: Reporter) -> AbstractContextManager[None]:
        import ray

        stated = ray.get_runtime_context().gcs_address
        again = resume_command(store.name, store.storage, self.address)
        return head_watched(
            [self.address, stated] if self.address else [stated],
            lambda head: reporter.notice(
                f"The head of the Ray cluster, {head}, does not answer. Finished trials and "
                "checkpoints are kept. If it stays away, Ray ends this process within a minute; "
                f"then {again} continues the sweep"
            ),
        )


@contextmanager
def head_watched(
    addresses: Iterable[str], report: Callable[[str], object], seconds: float = _SECONDS
) -> Iterator[None]:
    """Context: `report` is called with the address of a server that no longer answers.

    It is called again only if the server has answered in between. The first address that answers at
    the start is watched, as this machine may not reach the one that Ray states.
    """
    over = threading.Event()

    def watch() -> None:
        address = next((each for each in addresses if _answers(each, seconds)), None)
        failures = 0
        while address is not None and not over.wait(seconds):
            failures = 0 if _answers(address, seconds) else failures + 1
            if failures == _MOST_FAILURES:
                report(address)

    threading.Thread(target=watch, name="head", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _answers(address: str, seconds: float) -> bool:
    host, _, port = address.rpartition(":")
    if not port.isdigit():  # such as "auto"
        return False
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except OSError:
        return False
    return True
