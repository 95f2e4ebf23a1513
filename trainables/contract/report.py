"""Messages between the driver and a trial's worker, and their form in Ray Tune.

Free of torch and Ray, so that the driver and the workers share it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

from trainables.contract.setting import Setting

Role = Literal["encoder", "baseline", "published", "search", "finalist"]
# Of an epoch, besides its metrics; they differ from run to run.
COSTS = ("timestamp", "run_seconds", "training_seconds", "gpu_memory", "gpu_memory_share")
NEVER_STOPPED: tuple[Role, ...] = ("encoder", "baseline", "finalist")
Entry = dict[str, float]


@dataclass(frozen=True)
class TrialConfig:
    """A trial as the driver asks a worker for it.

    Attributes:
        number: Position in the sweep, from 0; names the trial's folder.
        role: Why it is run; ``encoder`` is the first of two stages.
        setting: Its loss with its hyperparameters.
        seed: Of all that is random in its training.
        unlimited: Whether it may take more of a shared GPU's memory than its share, as that was
            too little for it before.
    """

    number: int
    role: Role
    setting: Setting
    seed: int
    unlimited: bool = False

    def to_tune(self) -> dict[str, Any]:
        """The configuration of the trial in Tune."""
        return asdict(self)

    @classmethod
    def from_tune(cls, config: dict[str, Any]) -> TrialConfig:
        """The trial of a configuration that :meth:`to_tune` made."""
        return cls(**{**config, "setting": Setting(**config["setting"])})


@dataclass(frozen=True)
class Progressed:
    """Epochs are trained and stored.

    Attributes:
        entries: The metrics of each epoch. More than one where reports may have been lost with the
            process that passed them on; known epochs may be among them. Besides ``epoch``,
            ``val_nll`` and so on: ``timestamp`` (seconds since 1970 by the worker's clock),
            ``run_seconds`` (since its process got the trial), ``training_seconds`` (of the epoch,
            without evaluation) and on a GPU ``gpu_memory`` (the highest since the epoch before, in
            bytes) and ``gpu_memory_share`` (the same as a fraction of the GPU's).
        done: Whether the last of them was the trial's last.
    """

    entries: tuple[Entry, ...]
    done: bool


@dataclass(frozen=True)
class Waiting:
    """An epoch is trained but cannot be written yet; the worker tries again.

    Attributes:
        reason: What is in the way.
    """

    reason: str
    done: Literal[False] = False


@dataclass(frozen=True)
class Failed:
    """The trial cannot continue.

    Attributes:
        reason: Why, in one line.
        traceback: Where, if it was an exception.
    """

    reason: str
    traceback: str = ""
    done: Literal[True] = True


@dataclass(frozen=True)
class OutOfMemory:
    """The memory of a GPU that several trials share is used up; the trial may be retried.

    Attributes:
        reason: What PyTorch says of it, in one line.
    """

    reason: str
    done: Literal[True] = True


Report = Progressed | Waiting | Failed | OutOfMemory
_KINDS: dict[str, type[Report]] = {
    kind.__name__: kind for kind in (Progressed, Waiting, Failed, OutOfMemory)
}


def to_tune(report: Report) -> dict[str, Any]:
    """A report as a result of Tune: JSON, and ``done``, which ends the trial.

    Of every number in a result Tune keeps running statistics, which would cost more than the rest
    of a short trial; so there is none in it.
    """
    content = json.dumps({"kind": type(report).__name__, **asdict(report)})
    return {"report": content, "done": report.done}


def from_tune(result: dict[str, Any]) -> Report | None:
    """The report in a result of :func:`to_tune`; None if a trial has reported nothing yet."""
    return _parse(result["report"]) if "report" in result else None


@lru_cache(maxsize=64)  # a result is looked at by Tune's scheduler and by its callback
def _parse(content: str) -> Report:
    values = json.loads(content)
    kind = _KINDS[values.pop("kind")]
    if kind is Progressed:
        values["entries"] = tuple(values["entries"])
    return kind(**values)
