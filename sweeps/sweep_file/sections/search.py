"""The sections on the search: which settings are tried, stopped and selected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

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
from trainables.contract.config import Criterion, Epochs, Positive, ScalingMethod, ScalingWay
from trainables.contract.metric_names import MetricName
from trainables.plugins.components import installed

GUIDED: Final = "guided"
"""The sampler that temperatures guide, see :mod:`sweeps.search.guide`."""
GUIDED_TRIALS: Final = 16
"""Trials after which a guided search ends by default; measured in docs/search.md."""

_GUIDING: Final = frozenset(
    {"event_ece", "ece", "adaptive_ece", "smooth_ece", "debiased_ece", "nll", "brier"}
)
_LARGEST_SEED = 2**31 - 1  # still has 32 bits after adding the number of a fresh seed


CHANGEABLE: Final = (
    *("trials", "max_epochs", "max_hours", "max_gpu_hours"),
    *("max_minutes_per_trial", "max_failures"),
)
"""The keys of ``search`` that may be changed when a sweep is resumed."""


Names = Annotated[
    tuple[Name, ...],
    Strict(False),
    BeforeValidator(one_alone),
    Field(max_length=MOST_ENTRIES),
]

_SHORT = {"refinement": "val_nll_scaled"}  # the part of the NLL that a temperature cannot reduce


def _joined(value: Any) -> Any:
    """``[val_ece, val_error]`` becomes ``val_ece, val_error``, ``refinement`` its metric.

    The name of an installed package's objective becomes the path of its function.
    """
    paths = installed("calsweep.objectives") | _SHORT
    parts = value.split(",") if isinstance(value, str) else value
    if isinstance(parts, list | tuple) and parts and all(isinstance(part, str) for part in parts):
        return ", ".join(paths.get(part.strip(), part.strip()) for part in parts)
    return value


def _at_most(value: Any) -> Any:
    """``0.3`` is short for ``{at_most: 0.3}``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"at_most": value} if number else value


class ScalingMethodSection(Section, frozen=True):
    """``scaling_method``: how the validation split calibrates a trained network.

    Attributes:
        name: ``auto`` chooses by cross-fitting: a temperature, unless a richer map has an NLL that
            is lower by more than one standard error, also after the inverse map of focal losses.
            ``temperature``; structured ``vector`` or ``matrix`` scaling; ``beta`` calibration, for
            two classes; or ``none``. The search itself always looks at the temperature.
        criterion: How the temperature is fitted. ``nll`` minimises the NLL, with a penalty on
            temperatures far from 1; ``nll_unpenalised`` the NLL alone. ``ece_grid`` takes the
            temperature of 0.1, 0.2 … 10 with the lowest ECE for all metrics, as the papers on focal
            losses do; with both, ``auto`` is ``temperature``. Ensembles of networks are always
            fitted by ``nll``.
        training_temperature: Whether finalists also report ``training_temperature``, the one of
            this grid with the lowest ECE on the training split. It is only for comparison with
            papers: ``calsweep table --metrics ece@training_temperature``.
    """

    name: ScalingMethod = "auto"
    criterion: Criterion = "nll"
    training_temperature: bool = False

    @property
    def way(self) -> ScalingWay:
        """How networks are scaled."""
        plain = self.name == "auto" and self.criterion != "nll"
        return ScalingWay("temperature" if plain else self.name, self.criterion)


class ConstraintSection(Section, frozen=True):
    """The limit of a metric; give one of these keys.

    Attributes:
        at_most: The largest value allowed.
        at_least: The smallest value allowed, for a metric where higher is better.
        above_baseline: How far it may be above the value of the cross-entropy baseline.
        below_baseline: How far it may be below that value.
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


class SearchSection(Section, frozen=True):
    """``search``: how many trials, how they are proposed, and what is minimised.

    ``trials``, ``max_epochs``, ``max_hours`` and ``max_gpu_hours`` are budgets: the first one
    reached ends the search. Enough is reserved for the finalists.

    Attributes:
        trials: Largest number of settings to try, including the baseline and published settings. By
            default 16 if the search is guided, or more for 16 losses or more, else 50.
        sampler: What proposes settings. ``guided`` follows the baseline: it predicts from the
            temperatures of earlier sweeps and of this one which setting is best, and ends the
            search when it expects no other to be better. It needs one objective that a temperature
            affects, such as ``val_ece``, ``val_nll`` or ``val_brier``; for others it is ``tpe``.
            ``tpe`` and ``random`` follow the baseline and the published settings of the losses.
        learn_from: Sweeps in the same storage, best on the same data and model, whose trials the
            sampler learns from; they do not count as this sweep's. ``guided`` needs finished ones,
            and with ``all`` starts from the settings that come with calsweep and all finished
            sweeps. ``none``, and for other samplers ``all``, is nothing.
        seed: Seed of everything random: splits, weights, batches, proposals.
        objective: The validation metric to minimise, or your own function of probabilities and
            labels as ``package.module:function``. With the ending ``_scaled`` it is measured after
            temperature scaling. For a list, such as ``[val_ece, val_error]``, the result is the
            Pareto front; tables and comparisons use the first metric.
        guard: By how much a trial's validation error may exceed that of the cross-entropy
            baseline, as a fraction; beyond it by more than half a standard error of the difference,
            a setting is infeasible.
        constraints: Limits of other metrics that a feasible trial respects, by metric:
            ``{val_nll: 0.3, val_brier: {above_baseline: 0.01}, val_auroc: {at_least: 0.9}}``.
        max_epochs: Epochs of all trials together, including finalists and excluding encoders.
        max_hours: Hours after which nothing continues, including time spent before a resume.
        max_gpu_hours: The same in GPU hours: half an hour on half a GPU is a quarter.
        max_minutes_per_trial: Minutes after which a trial fails and its process is ended, if it is
            not done; without Ray after the epoch. Time before a resume counts, before a retry
            it does not.
        max_failures: The sweep ends when this many trials in a row have failed, because a broken
            node or a bug fails all of them; null never ends it.
    """

    trials: Count = 50
    sampler: str = GUIDED
    learn_from: Annotated[Names, Field(min_length=1)] = ("all",)
    seed: Annotated[int, Field(ge=0, le=_LARGEST_SEED)] = 0
    objective: Annotated[str, BeforeValidator(_joined)] = "val_ece"
    guard: Annotated[float, Field(ge=0, le=1)] = 0.01
    constraints: Annotated[dict[str, ConstraintSection], Field(max_length=MOST_ENTRIES)] = {}
    max_epochs: Annotated[int, Field(gt=0, le=1_000_000_000)] | None = None
    max_hours: Positive | None = None
    max_gpu_hours: Positive | None = None
    max_minutes_per_trial: Positive | None = None
    max_failures: Count | None = 10

    @property
    def named(self) -> tuple[str, ...]:
        """The sweeps that ``learn_from`` names."""
        return () if self.learn_from in (("all",), ("none",)) else self.learn_from

    @property
    def objectives(self) -> tuple[str, ...]:
        """The objectives as written in the sweep file."""
        return tuple(part.strip() for part in self.objective.split(","))

    @property
    def is_guided(self) -> bool:
        """Whether temperatures guide the search, which needs one objective that they affect."""
        objective = MetricName.parse(self.objectives[0])
        affected = not objective.scaled and objective.metric in _GUIDING
        return self.sampler == GUIDED and len(self.objectives) == 1 and affected

    @property
    def own_metrics(self) -> tuple[str, ...]:
        """The paths of custom functions among the objectives."""
        own = (part.removesuffix("_scaled") for part in self.objectives if ":" in part)
        return tuple(dict.fromkeys(own))


class SchedulerSection(Section, frozen=True):
    """``scheduler``: what stops poor trials early.

    Attributes:
        name: ``asha``, or ``none``, with which all trials finish. Without this section a guided
            search uses ``none``, because it has few trials of a loss to compare.
        metric: The metric by which trials of the same loss are compared. ECE is unsuitable, because
            it is lowest before training begins.
        grace_period: Epochs that every trial runs; by default a ninth of ``training.epochs``.
        reduction_factor: At each rung one in this many trials continues, and each rung is this many
            times later than the one before.
    """

    name: str = "asha"
    metric: str = "val_nll"
    grace_period: Epochs | None = None
    reduction_factor: Annotated[int, Field(ge=2, le=1_000)] = 3


LOOKS: Final[Mapping[int, float]] = {3: 0.2, 5: 0.3, 8: 0.5}
"""Of ``seeds: auto``: after how many fresh seeds the verdict is looked at, and the share of the
allowed error that each look may spend."""

NETWORKS: Final = 5
"""The most networks of an ensemble, unless ``selection.networks`` is set."""


class SelectedFromSection(Section, frozen=True):
    """The origin of a setting that is trained again; verdicts are corrected for it.

    Attributes:
        candidates: Number of settings it was selected from.
        data: Digest of the data on which it was selected. On other data no correction is needed.
    """

    candidates: Count
    data: Annotated[str, Field(pattern=r"^[0-9a-f]{1,128}$")]


class SelectionSection(Section, frozen=True):
    """``selection``: the best settings and the baseline are trained again with fresh seeds.

    Attributes:
        finalists: Number of settings, without the baseline.
        seeds: Number of fresh seeds of the best finalist and the baseline. The others have one,
            unless ``per_loss`` is set or there are several objectives. With ``auto`` the best one
            and the baseline have three, and then up to eight, until the verdict on the validation
            split is decided, is unlikely to be supported with more seeds, or a budget is used up.
        baseline_seeds: The least number of trainings of the baseline, that of the search included.
            Their mean is compared with the ensemble of the sweep's networks. By default
            as many as the best finalist has.
        ensemble: Whether to recommend several networks: with ``if_supported`` those that are shown
            to be best, with ``never`` they are only shown.
        networks: The most networks that a prediction of an ensemble may cost.
        per_loss: Whether the finalists are the best setting of each loss. The result then compares
            these losses in pairs on the test split.
        selected_from: The origin of the setting, in a file that ``calsweep best`` wrote.
    """

    finalists: Again = 3
    seeds: Again | Literal["auto"] = 3
    baseline_seeds: Annotated[int, Field(ge=1, le=1_000)] | None = None
    ensemble: Literal["never", "if_supported"] = "if_supported"
    networks: Annotated[int, Field(ge=3, le=20)] = NETWORKS
    per_loss: bool = False
    selected_from: SelectedFromSection | None = None

    @model_validator(mode="after")
    def _auto_has_one_best(self) -> SelectionSection:
        if self.seeds == "auto" and self.per_loss:
            raise ValueError(
                "seeds = auto is not allowed with per_loss = true, as it adds seeds to the best "
                "finalist only; allowed: a number"
            )
        return self

    @property
    def looks(self) -> Mapping[int, float]:
        """Numbers of fresh seeds after which the verdict is looked at, with shares of the error."""
        if not self.finalists or not self.seeds:
            return {}
        return LOOKS if self.seeds == "auto" else {self.seeds: 1.0}

    @property
    def seeds_of_baseline(self) -> int:
        """Number of fresh seeds of the baseline at first; the search trains it once."""
        return max(min(self.looks, default=0), (self.baseline_seeds or 1) - 1)

    @property
    def most_seeds(self) -> int:
        """Number of fresh seeds that the best finalist or the baseline may get."""
        return max((*self.looks, self.seeds_of_baseline))
