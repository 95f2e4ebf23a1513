"""The selection rule of a sweep: metrics to minimise, and limits of other metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sweeps.messages.formatting import objective_heading
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.search import NETWORKS, ConstraintSection
from trainables.contract.config import USUAL_SCALING, ScalingWay

_ROUNDING: Final = 1e-9  # relative error up to which a value counts as equal to its limit


@dataclass(frozen=True)
class Limit:
    """A limit of a metric such as ``val_nll``.

    Attributes:
        amount: The limit, or its distance from the baseline's value.
        sign: 1 for an upper limit, -1 for a lower limit.
        relative: Whether the limit is relative to the baseline, or to the best value if the
            baseline did not finish.
    """

    metric: str
    amount: float
    sign: int = 1
    relative: bool = False

    def excess(self, value: float, reference: float) -> float:
        """The excess of a value over the limit; at most 0 for values within it, NaN exceeds it.

        Rounding errors are tolerated, because in floating point .07 is greater than .06 + .01.
        """
        most = self.amount + (self.sign * reference if self.relative else 0.0)
        if math.isclose(self.sign * value, most, rel_tol=_ROUNDING):
            return 0.0
        found = self.sign * value - most
        return math.inf if math.isnan(found) else found

    def __str__(self) -> str:
        """``val_nll at most 0.3``, ``val_auroc at most 0.01 below cross-entropy's``."""
        if not self.relative:
            most = "at most" if self.sign == 1 else "at least"
            return f"{self.metric} {most} {self.sign * self.amount:g}"
        side = "above" if self.sign == 1 else "below"
        return f"{self.metric} at most {self.amount:g} {side} cross-entropy's"

    def broken(self, *, by_baseline: bool) -> str:
        """``NLL > 0.3``, ``error > baseline + 0.01``, ``AUROC < best - 0.01``."""
        bound = f"{self.sign * self.amount:g}"
        if self.relative:
            best = "lowest" if self.sign == 1 else "highest"
            signed = f"{self.sign * self.amount:+g}"
            bound = f"{'baseline' if by_baseline else best} {signed[0]} {signed[1:]}"
        return f"{objective_heading(self.metric)} {'>' if self.sign == 1 else '<'} {bound}"

    @property
    def too_far(self) -> str:
        """``error too high``, ``AUROC too low``."""
        return f"{objective_heading(self.metric)} too {'high' if self.sign == 1 else 'low'}"


@dataclass(frozen=True)
class Rule:
    """The selection rule of a sweep.

    Attributes:
        objective: The metric to minimise, such as ``val_ece``.
        guard: How far the validation error may exceed the baseline's, or the lowest if the baseline
            did not finish.
        others: Further metrics to minimise, if the result is a Pareto front.
        scaling: How trained networks are calibrated.
        networks: The most networks of an ensemble.
    """

    objective: str
    guard: float
    constraints: tuple[Limit, ...] = ()
    others: tuple[str, ...] = ()
    scaling: ScalingWay = USUAL_SCALING
    networks: int = NETWORKS

    @property
    def objectives(self) -> tuple[str, ...]:
        return (self.objective, *self.others)

    @property
    def deciding(self) -> tuple[str, ...]:
        """The metrics that decide besides the error."""
        return (*self.objectives, *(limit.metric for limit in self.constraints))

    @property
    def limits(self) -> dict[str, Limit]:
        guard = Limit("val_error", self.guard, relative=True)
        return {"guard": guard, **{limit.metric: limit for limit in self.constraints}}


def rule_of(sweep: SweepFile) -> Rule:
    first, *others = sweep.objectives
    constraints = (_limit(*given) for given in sweep.search.constraints.items())
    return Rule(
        first,
        sweep.search.guard,
        tuple(constraints),
        tuple(others),
        sweep.scaling_method.way,
        sweep.selection.networks,
    )


def _limit(metric: str, given: ConstraintSection) -> Limit:
    sign = 1 if given.at_least is None and given.below_baseline is None else -1
    relative = given.at_most is None and given.at_least is None
    amounts = (given.at_most, given.at_least, given.above_baseline, given.below_baseline)
    (amount,) = (value for value in amounts if value is not None)
    return Limit(metric, sign * amount if not relative else amount, sign, relative)
