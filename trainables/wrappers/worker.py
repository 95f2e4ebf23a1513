"""The code of each worker of a multi-worker trial. Does not import PyTorch."""

import asyncio
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import ray

from trainables.contract.config import TrialSetup
from trainables.contract.messages import Failed, Progressed, Report, TrialConfig, Waiting

R = TypeVar("R")
_MOST: Final = 20  # lines of a process: more would hide the rest of the output


class Warned:
    """Collects the first warning of each place in the code, from the creation on."""

    def __init__(self) -> None:
        self._places: set[tuple[type[Warning], str, int]] = set()
        self._new: list[str] = []
        self._show = warnings.showwarning
        warnings.showwarning = self._collect

    def _collect(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        *more: Any,
        **named: Any,
    ) -> None:
        place = category, filename, lineno
        if place not in self._places and len(self._places) < _MOST:
            self._places.add(place)
            said = " ".join(str(message).split())
            file = "/".join(Path(filename).parts[-2:])
            self._new.append(f"{category.__name__}: {said} ({file}, line {lineno})")
        self._show(message, category, filename, lineno, *more, **named)

    def added_to(self, report: R) -> R:
        """A report of an epoch or a failure, with the warnings since the previous one."""
        if not self._new or not isinstance(report, Progressed | Failed):
            return report
        new, self._new = tuple(self._new), []
        return replace(report, warnings=new)


SECONDS_BETWEEN_TRIES = 5.0  # between attempts to write to the storage


@dataclass(frozen=True)
class Order:
    """The order to train one more epoch of a trial, numbered among those of these workers."""

    trial: int
    config: TrialConfig


class Mail:
    """An actor between the process of a trial and its workers."""

    def __init__(self, workers: int) -> None:
        self._orders: list[asyncio.Queue[Order | None]] = [asyncio.Queue() for _ in range(workers)]
        self._reports: asyncio.Queue[Report | None] = asyncio.Queue()

    async def order(self, order: Order | None) -> None:
        """Send an order to all workers; None ends them."""
        for orders in self._orders:
            orders.put_nowait(order)

    async def next_order(self, rank: int) -> Order | None:
        """Wait for the next order of a worker."""
        return await self._orders[rank].get()

    async def tell(self, report: Report | None) -> None:
        """Send a report to the process of the trial; None if the workers have ended."""
        self._reports.put_nowait(report)

    async def next_report(self) -> Report | None:
        """Wait for the next report."""
        return await self._reports.get()


class TrialFailedError(Exception):
    """A trial failed: ``args`` are the fields of :class:`~trainables.contract.messages.Failed`."""


@dataclass(frozen=True)
class Work:
    """The arguments of all workers of a sweep.

    ``dataset`` is a reference in Ray's object store, ``mail`` the handle of a :class:`Mail`.
    """

    dataset: Any
    setup: TrialSetup
    on_gpus: bool
    mail: Any


def run_worker(loop_config: dict[str, Work]) -> None:
    """Runs orders, one trial after the other, in an initialised process group.

    If a trial fails, it raises ``TrialFailedError``. The other workers do not know this, so all
    end.
    """
    from threadpoolctl import threadpool_limits
    from torch import distributed

    from trainables.runtime.devices import DeviceFailedError, release_memory
    from trainables.runtime.torch_internals import lost_a_peer
    from trainables.trials.making import make_run
    from trainables.wrappers.process_group import worker_device

    work, warned = loop_config["work"], Warned()
    threadpool_limits(work.setup.threads)  # a forked process has those of the other one
    rank, device = distributed.get_rank(), worker_device(on_gpus=work.on_gpus)
    dataset = ray.get(work.dataset)
    run, trial = None, None
    while (order := ray.get(work.mail.next_order.remote(rank))) is not None:
        try:
            if order.trial != trial:
                if run is not None:
                    run.close()
                    run = None
                    release_memory(device)
                run, trial = make_run(dataset, work.setup, order.config, device), order.trial
            assert run is not None
            while isinstance(report := run.advance(), Waiting):  # other workers may not be waiting
                work.mail.tell.remote(report)
                time.sleep(SECONDS_BETWEEN_TRIES)
        except Exception as error:
            if isinstance(error, DeviceFailedError) or lost_a_peer(error):
                raise
            reason = f"{type(error).__name__}: {error}"
            raise TrialFailedError(reason, traceback.format_exc()) from None
        report = warned.added_to(report)
        if isinstance(report, Failed):
            raise TrialFailedError(
                report.reason, report.traceback, report.warnings, report.diverged
            )
        if rank == 0:
            work.mail.tell.remote(report)
    if run is not None:
        run.close()
    distributed.destroy_process_group()
