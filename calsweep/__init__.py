"""The Python interface of calsweep: sweeps and their results, losses, metrics.

``import calsweep`` takes a few milliseconds, because names are imported on first use. Losses,
metrics and `judge` need only PyTorch, NumPy and SciPy. Everything else needs ``calsweep[sweeps]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from calsweep.packages import hidden_package, is_command

if TYPE_CHECKING:
    from calsweep import losses as losses
    from calsweep import metrics as metrics
    from calsweep.estimator import CalibratedClassifierSweep as CalibratedClassifierSweep
    from calsweep.judging import Judgement as Judgement
    from calsweep.judging import judge as judge
    from calsweep.result import Result as Result
    from calsweep.result import best as best
    from calsweep.result import load as load
    from calsweep.running import loss as loss
    from calsweep.running import resume as resume
    from calsweep.running import run as run
    from sweeps.errors import SweepFailedError as SweepFailedError
    from sweeps.errors import SweepInterruptedError as SweepInterruptedError
    from sweeps.errors import UserError as UserError
    from sweeps.results.recommendation import Recommendation as Recommendation
    from sweeps.results.result import Best as Best
    from trainables.trials.own_loop import Trial as Trial

_HOMES: Final = {
    "calsweep.estimator": ("CalibratedClassifierSweep",),
    "calsweep.judging": ("Judgement", "judge"),
    "calsweep.result": ("Result", "best", "load"),
    "calsweep.running": ("loss", "resume", "run"),
    "sweeps.errors": ("SweepFailedError", "SweepInterruptedError", "UserError"),
    "sweeps.results.recommendation": ("Recommendation",),
    "sweeps.results.result": ("Best",),
    "trainables.trials.own_loop": ("Trial",),
}
_WITHOUT_EXTRA: Final = ("sweeps.errors", "calsweep.judging")
_MODULES: Final = ("losses", "metrics")

if not is_command() and (problem := hidden_package()):
    raise ImportError(problem)

__all__ = [name for names in _HOMES.values() for name in names] + list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"calsweep.{name}")
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'calsweep' has no attribute {name!r}")
    if home not in _WITHOUT_EXTRA:
        from calsweep.extras import require

        require(f"calsweep.{name}", "sweeps")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
