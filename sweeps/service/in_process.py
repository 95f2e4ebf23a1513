"""The backend that trains in this process, for debugging: breakpoints and tracebacks work."""

from __future__ import annotations

import bdb
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweeps.errors import SweepFailedError, first_line
from sweeps.messages.reporter import Reporter, logger
from sweeps.planning.gpu_share import Gpu
from sweeps.search import clock
from sweeps.search.trial_queue import TrialQueue, overtime
from sweeps.store.requests import Inbox, fulfil
from sweeps.store.sweep_store import SweepStore
from trainables.contract.config import TrialSetup
from trainables.contract.messages import Failed, OutOfMemory, Progressed, Report, Waiting

if TYPE_CHECKING:
    import torch

    from sweeps.search.record import TrialRecord
    from trainables.data.core.base import Data
    from trainables.trials.trial import TrialRun


_SECONDS_BETWEEN_TRIES = 1.0  # to write to a storage that is away


class InProcess:
    """Trains one trial after the other here, with the plan and the results of a sweep on Ray.

    See :class:`~sweeps.service.backend.Backend`. Never imports Ray.
    """

    label = "this machine"
    start = "importing PyTorch"

    def started(self, reporter: Reporter) -> AbstractContextManager[None]:
        return nullcontext()

    def nodes(self) -> list[dict[str, float]]:
        import torch

        return [{"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.is_available())}]

    def weakest_gpu(self, reporter: Reporter) -> Gpu | None:
        import torch

        if not torch.cuda.is_available():
            return None
        found = torch.cuda.get_device_properties(0)
        bfloat16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return Gpu(found.name, found.total_memory, bfloat16)

    def cpus_have_bfloat16(self) -> bool:
        from trainables.engine.precision import cpu_has_bfloat16

        return cpu_has_bfloat16()

    def run(
        self,
        queue: TrialQueue,
        setup: TrialSetup,
        data: Data,
        store: SweepStore,
        reporter: Reporter,
    ) -> None:
        import torch

        from trainables.runtime.devices import release_memory
        from trainables.trials.making import make_run

        device = torch.device("cuda", 0) if queue.plan.sweep.scaling.gpus else torch.device("cpu")
        watch = _Watch(queue, store, reporter, Inbox(store.folder))
        with _process_restored(device):
            while not queue.exhausted and (record := queue.next()) is not None:
                run = make_run(data, setup, queue.config(record), device)
                _run_trial(watch, record, run)
                release_memory(device)


@dataclass(frozen=True)
class _Watch:
    """What is looked at after each epoch."""

    queue: TrialQueue
    store: SweepStore
    reporter: Reporter
    inbox: Inbox

    def look(self, record: TrialRecord) -> None:
        """End the running trial if it has taken too long, and fulfil what users have asked for."""
        self.store.check_held()
        began = record.runs[-1][0]
        limit = overtime(record, clock.time() - began, self.queue.plan.search)
        if record.state == "running" and limit:
            self.reporter.notice(f"trial {record.number} failed: {limit}")
            self.queue.end(record.number, "failed", limit)
        for request in self.inbox():
            for number in request.trials:
                fulfil(request, number, self.queue, self.reporter)


def _run_trial(watch: _Watch, record: TrialRecord, trial: TrialRun) -> None:
    """Train a trial until it ends, or until no budget is left."""
    from trainables.runtime.devices import DeviceFailedError

    queue, reporter = watch.queue, watch.reporter
    with closing(trial) as run:
        while record.state == "running" and not queue.exhausted:
            watch.look(record)
            if record.state != "running":
                break
            try:
                report = _advanced(run)
            except DeviceFailedError as error:
                raise SweepFailedError(
                    f"this process can no longer use its GPU ({first_line(error)}); resume the "
                    "sweep in another process"
                ) from error
            _take(report, queue, record.number, reporter)
            if isinstance(report, OutOfMemory):
                break  # the queue has it again, or has failed it


def _advanced(run: TrialRun) -> Report:
    """Train one epoch; an exception of the user's code is the failure of the trial."""
    from trainables.runtime.devices import DeviceFailedError

    try:
        return run.advance()
    except DeviceFailedError:
        raise
    except bdb.BdbQuit:  # the command `q` of Python's debugger
        raise KeyboardInterrupt from None
    except Exception as error:
        return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())


def _take(report: Report, queue: TrialQueue, number: int, reporter: Reporter) -> None:
    match report:
        case Waiting(reason):
            reporter.fault(f"trial {number} waits: {reason}")
            time.sleep(_SECONDS_BETWEEN_TRIES)
        case Failed(reason, trace, _, diverged):
            logger.error("trial %d: %s", number, trace or reason)
            reporter.notice(f"trial {number} failed: {trace or reason}".rstrip())
            queue.end(number, "failed", reason, diverged=diverged)
        case OutOfMemory(reason):
            queue.out_of_memory(number, reason, at_fault=True)
            reporter.notice(f"trial {number} ran out of memory on its GPU")
        case Progressed(entries, done):
            poor = queue.should_prune(number, entries)
            for entry in entries:
                queue.result(number, entry)
            if done:
                queue.end(number, "finished")
            elif poor:
                queue.stop(number)


@contextmanager
def _process_restored(device: torch.device) -> Iterator[None]:
    """Context: what trials set for their whole process is as before afterwards."""
    import torch

    threads, path = torch.get_num_threads(), list(sys.path)
    deterministic = torch.backends.cudnn.deterministic
    devices = [device] if device.type == "cuda" else []
    debugger = os.environ.get("PYTHONBREAKPOINT", "")
    if debugger.startswith("ray."):  # an earlier sweep of this process was on Ray
        del os.environ["PYTHONBREAKPOINT"]
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        if debugger.startswith("ray."):
            os.environ["PYTHONBREAKPOINT"] = debugger
        torch.set_num_threads(threads)
        torch.backends.cudnn.deterministic = deterministic
        sys.path[:] = path
