"""Messages between the driver and a trial's worker, without torch and Ray."""

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal, Self

from trainables.contract.setting import Setting

Role = Literal["encoder", "baseline", "published", "search", "finalist"]
# Values of an epoch that are not metrics and differ between repetitions.
COSTS = ("timestamp", "run_seconds", "training_seconds", "gpu_memory", "gpu_memory_share")
NEVER_STOPPED: tuple[Role, ...] = ("encoder", "baseline", "finalist")
Entry = dict[str, float]


@dataclass(frozen=True)
class TrialConfig:
    """Configuration of a trial, from the driver for a worker.

    ``number`` is its position in the sweep, from 0, which names its folder; the role ``encoder`` is
    the first of two stages. An ``unlimited`` trial may exceed its share of a shared GPU's memory,
    because the share was too small before. Processes of another ``generation`` do not train it.
    """

    number: int
    role: Role
    setting: Setting
    seed: int
    unlimited: bool = False
    generation: int = 0

    def to_tune(self) -> dict[str, object]:
        """The configuration of the trial in Tune."""
        return asdict(self)

    @classmethod
    def from_tune(cls, config: dict[str, Any]) -> Self:
        """The trial from a configuration by :meth:`to_tune`."""
        return cls(**{**config, "setting": Setting(**config["setting"])})


@dataclass(frozen=True)
class Progressed:
    """Epochs have been trained and stored.

    Attributes:
        entries: The metrics of each epoch. There are several, which may include known epochs, if
            reports may have been lost with the process that forwarded them. Besides ``epoch``,
            ``val_nll`` and so on: ``timestamp`` (seconds since 1970 by the worker's clock),
            ``run_seconds`` (since its process got the trial), ``training_seconds`` (of the epoch,
            without evaluation) and, on a GPU, ``gpu_memory`` (the peak since the previous epoch, in
            bytes) and ``gpu_memory_share`` (as a fraction of the GPU memory).
        done: Whether the last entry is the trial's last epoch.
        warnings: Warnings that the worker's process has not reported before, a line each.
    """

    entries: tuple[Entry, ...]
    done: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """An epoch cannot be written yet, for this reason; the worker tries again."""

    reason: str
    done: Literal[False] = False


@dataclass(frozen=True)
class Failed:
    """The trial cannot continue, for this reason in one line; or its numbers are not finite."""

    reason: str
    traceback: str = ""
    warnings: tuple[str, ...] = ()
    diverged: bool = False
    done: Literal[True] = True


@dataclass(frozen=True)
class OutOfMemory:
    """The memory of a GPU that several trials share is used up; the trial may be retried."""

    reason: str
    done: Literal[True] = True


Report = Progressed | Waiting | Failed | OutOfMemory
_KINDS: dict[str, type[Report]] = {
    kind.__name__: kind for kind in (Progressed, Waiting, Failed, OutOfMemory)
}


def to_tune(report: Report) -> dict[str, object]:
    """A report as a result of Tune: JSON, and ``done``, which ends the trial.

    It contains no numbers, because Tune would compute running statistics of each, which takes
    longer than the rest of a short trial.
    """
    content = json.dumps({"kind": type(report).__name__, **asdict(report)})
    return {"report": content, "done": report.done}


def from_tune(result: dict[str, object]) -> Report | None:
    """The report in a result of :func:`to_tune`; None if the trial has not reported yet."""
    return _parse(result["report"]) if "report" in result else None


@lru_cache(maxsize=64)  # both the scheduler and the callback of Tune read a result
def _parse(content: str) -> Report:
    values = json.loads(content)
    kind = _KINDS[values.pop("kind")]
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return kind(**values | lists)
