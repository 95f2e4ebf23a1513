"""The sections on the search: which settings are tried, stopped and selected."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, Strict, model_validator

from sweeps.sweep_file.sections.fields import (
    MOST_ENTRIES,
    Again,
    Bound,
    Count,
    Name,
    Section,
    one_alone,
)
from trainables.contract.config import Epochs, Positive

_LARGEST_SEED = 2**31 - 1  # also with the finalists' fresh seeds added it has 32 bits


BUDGETS: Final = ("trials", "max_epochs", "max_hours", "max_gpu_hours")
"""The keys of ``search`` that end it."""


_SHORT = {"refinement": "val_nll_scaled"}  # the NLL that a temperature cannot lower


def _joined(value: Any) -> Any:
    """``[val_ece, val_error]`` is kept as ``val_ece, val_error``, ``refinement`` as what it is."""
    parts = value.split(",") if isinstance(value, str) else value
    if isinstance(parts, list | tuple) and parts and all(isinstance(part, str) for part in parts):
        return ", ".join(_SHORT.get(part.strip(), part.strip()) for part in parts)
    return value


def _at_most(value: Any) -> Any:
    """``0.3`` is short for ``{at_most: 0.3}``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"at_most": value} if number else value


class ConstraintSection(Section):
    """What a metric must keep to: one of these.

    Attributes:
        at_most: The largest value allowed.
        at_least: The smallest value allowed, of a metric where higher is better.
        above_baseline: By how much it may be above the cross-entropy baseline's at most.
        below_baseline: By how much it may be below that at most.
    """

    at_most: Bound | None = None
    at_least: Bound | None = None
    above_baseline: Bound | None = None
    below_baseline: Bound | None = None

    _short_form = model_validator(mode="before")(_at_most)

    @model_validator(mode="after")
    def _one_of_them(self) -> ConstraintSection:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"{' and '.join(given) or 'nothing'} is given; allowed: one of "
                f"{', '.join(type(self).model_fields)}"
            )
        return self


class SearchSection(Section):
    """``search``: how many trials, chosen how, to minimise what.

    ``trials``, ``max_epochs``, ``max_hours`` and ``max_gpu_hours`` are budgets: whichever comes
    first ends the search, published settings or not, while what the finalists need is left.

    Attributes:
        trials: Settings to try, the baseline and the published ones among them.
        sampler: What proposes settings. ``tpe`` and ``random`` follow the published settings.
            ``guided`` follows the baseline: it predicts from the temperatures of earlier sweeps and
            of this one which setting is best, and ends the search when it expects no other to be
            better. It needs one objective that a temperature affects, such as ``val_ece``,
            ``val_nll`` or ``val_brier``; for others it is ``tpe``.
        learn_from: What ``guided`` starts from: ``all``, the settings that come with calsweep and
            the finished sweeps in the same storage; ``none``; or names of such sweeps.
        seed: Of all that is random: splits, weights, batches, proposals.
        objective: The validation metric to be lowered; or a function of your own, as
            ``package.module:function``, of probabilities and labels. Either with ``_scaled`` at its
            end is judged after temperature scaling. Of a list, such as ``[val_ece, val_error]``,
            the answer is the Pareto front; the first is what one number is shown of.
        guard: Share by which a trial's validation error may exceed the cross-entropy baseline's:
            beyond it the trial is infeasible, however low its objective.
        constraints: What other metrics must keep to for a trial to be feasible, by metric:
            ``{val_nll: 0.3, val_brier: {above_baseline: 0.01}, val_auroc: {at_least: 0.9}}``.
        max_epochs: Of all trials together, finalists among them, an encoder's not counted.
        max_hours: After them nothing runs any more; what was spent before a resume counts.
        max_gpu_hours: The same, of hours of GPUs: half an hour of half a GPU is a quarter.
        stop_at_noise: End the search once a feasible trial shows no larger calibration error than a
            perfectly calibrated model would with this many samples: nothing that follows could be
            shown to be better. The finalists are trained all the same.
        warm_start: Earlier sweeps in the same storage, on the same data and model best, for the
            sampler to learn from; their trials are not this sweep's.
    """

    trials: Count = 50
    sampler: str = "tpe"
    learn_from: Annotated[
        tuple[Name, ...],
        Strict(False),
        BeforeValidator(one_alone),
        Field(min_length=1, max_length=MOST_ENTRIES),
    ] = ("all",)
    seed: Annotated[int, Field(ge=0, le=_LARGEST_SEED)] = 0
    objective: Annotated[str, BeforeValidator(_joined)] = "val_ece"
    guard: Annotated[float, Field(ge=0, le=1)] = 0.01
    constraints: Annotated[dict[str, ConstraintSection], Field(max_length=MOST_ENTRIES)] = {}
    max_epochs: Annotated[int, Field(gt=0, le=1_000_000_000)] | None = None
    max_hours: Positive | None = None
    max_gpu_hours: Positive | None = None
    stop_at_noise: bool = False
    warm_start: Annotated[
        tuple[Name, ...],
        Strict(False),
        BeforeValidator(one_alone),
        Field(max_length=MOST_ENTRIES),
    ] = ()

    @property
    def objectives(self) -> tuple[str, ...]:
        """The parts of the objective, as they are named."""
        return tuple(part.strip() for part in self.objective.split(","))

    @property
    def own_metrics(self) -> tuple[str, ...]:
        """The paths of functions of the user's own among the objectives."""
        own = (part.removesuffix("_scaled") for part in self.objectives if ":" in part)
        return tuple(dict.fromkeys(own))


class SchedulerSection(Section):
    """``scheduler``: what stops poor trials early.

    Attributes:
        name: ``asha``, the default, or ``none``, the default of ``search.sampler: guided``: it lets
            all trials finish.
        metric: Which trials of the same loss are compared by; ECE does not do, as it is lowest
            before training begins.
        grace_period: Epochs that every trial may run; by default a ninth of them.
        reduction_factor: One of so many trials continues at each rung, and rungs lie as far apart.
    """

    name: str = "asha"
    metric: str = "val_nll"
    grace_period: Epochs | None = None
    reduction_factor: Annotated[int, Field(ge=2, le=1_000)] = 3


class SelectedFromSection(Section):
    """Where a setting that is trained again comes from; verdicts are corrected for it.

    Attributes:
        candidates: How many settings it was selected from.
        data: Digest of the data on which it was selected. On other data it counts for nothing.
    """

    candidates: Count
    data: Annotated[str, Field(pattern=r"^[0-9a-f]{1,128}$")]


class SelectionSection(Section):
    """``selection``: the best settings, and the baseline, are trained again with fresh seeds.

    Attributes:
        finalists: How many settings.
        seeds: How many fresh seeds each.
        per_loss: Whether the finalists are the best setting of each loss. The result then compares
            these losses in pairs on the test split.
        selected_from: In a file that ``calsweep best`` wrote: what the setting was selected from.
    """

    finalists: Again = 3
    seeds: Again = 2
    per_loss: bool = False
    selected_from: SelectedFromSection | None = None

    @property
    def new_seeds(self) -> int:
        """How many there are of each finalist; none without finalists."""
        return self.seeds if self.finalists else 0

    def most_trials(self, searched: int) -> int:
        """How many trials the finalists and the baseline need at most, of so many settings."""
        return self.new_seeds * min(self.finalists + 1, searched)
