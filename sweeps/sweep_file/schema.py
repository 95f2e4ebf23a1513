"""The sweep file: read once into a frozen, typed object that refuses what it does not know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    model_validator,
)

from sweeps.formatting import objective_heading
from sweeps.redaction import without_credentials
from sweeps.sweep_file.yaml_text import LARGEST_INTEGER, shortened
from trainables.config import AugmentationName, Layout, OptimizerName, Precision, ScheduleName
from trainables.config import TrainingConfig as Recipe

# Beyond these no value makes sense, and some break what is reckoned with them.
LARGEST = 1e6
_LARGEST_SEED = 2**31 - 1  # also with the finalists' new seeds added it has 32 bits
_MOST_ENTRIES = 100


def _check_scalar(value: Any) -> Any:
    """One message, where pydantic would give one for each type that it is not."""
    if not isinstance(value, bool | int | float | str) or (
        isinstance(value, int | float) and not abs(value) <= LARGEST
    ):
        raise ValueError(
            f"{shortened(value)} is not allowed; allowed: a finite number from {-LARGEST:,.0f} to "
            f"{LARGEST:,.0f}, text, true or false"
        )
    return value


def _check_gpus(value: Any) -> Any:
    """One message, as for scalars."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value != "auto" and not (
        number and 0 <= value <= 1_000 and (value < 1 or value == int(value))
    ):
        raise ValueError(
            f"{shortened(value)} is not allowed; allowed: auto, 0, a fraction below 1, or a whole "
            "number up to 1,000"
        )
    return value


def _check_weights(value: Any) -> Any:
    """One message, as for scalars."""
    if isinstance(value, list | tuple):
        numbers = [n for n in value if isinstance(n, int | float) and not isinstance(n, bool)]
        if len(numbers) == len(value) > 1 and all(0 < n <= LARGEST for n in numbers):
            return tuple(float(n) for n in numbers)
    elif value is None or value == "balanced":
        return value
    raise ValueError(
        f"{shortened(value)} is not allowed; allowed: balanced, or a list of a positive number for "
        f"each class, up to {LARGEST:,.0f}"
    )


Scalar = Annotated[bool | int | float | str, BeforeValidator(_check_scalar)]
Gpus = Annotated[
    Annotated[float, Field(ge=0, le=1_000)] | Literal["auto"], BeforeValidator(_check_gpus)
]
Bound = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0, le=LARGEST)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST)]
Epochs = Annotated[int, Field(gt=0, le=100_000)]
Count = Annotated[int, Field(gt=0, le=1_000_000)]
Resources = Annotated[int, Field(gt=0, le=10_000)]
Again = Annotated[int, Field(ge=0, le=1_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _name_alone(value: Any) -> Any:
    """``focal`` is short for ``{name: focal}``."""
    return {"name": value} if isinstance(value, str) else value


def _one_alone(value: Any) -> Any:
    """``first`` is short for ``[first]``."""
    return [value] if isinstance(value, str) else value


class _NamedPart(BaseModel):
    """A part chosen by name, with whatever options that part takes."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    name: str

    _short_form = model_validator(mode="before")(_name_alone)

    @model_validator(mode="after")
    def _integers_of_64_bits(self) -> Self:
        for key, value in self.options.items():
            if isinstance(value, int) and not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
                raise ValueError(
                    f"{key} is not allowed; allowed: whole numbers up to {LARGEST_INTEGER}"
                )
        return self

    @property
    def options(self) -> dict[str, Any]:
        """All keys but ``name``."""
        return dict(self.model_extra or {})

    @property
    def options_in_words(self) -> str:
        """``,width=8``; nothing where there are none."""
        return "".join(f",{name}={value}" for name, value in sorted(self.options.items()))


_TELL_NOTHING = {
    *("data", "dataset", "datasets", "images", "raw", "processed", "csv", "parquet"),
    *("train", "training", "test", "testing", "val", "validation", "valid", "dev"),
}


OWN_DATA: Final = "own"
"""Stands for data that the sweep's own training loop reads."""


class DatasetSection(_NamedPart):
    """``dataset``: the name of a dataset (or a dotted path) and its options.

    Attributes:
        name: Of a dataset, or ``package.module:function``; alone also ``dataset: NAME``.
        title: What the dataset is called in MLflow and in ``calsweep best``; by default its name,
            with that of the last folder that says something where the data are the user's own
            files: ``…/birds/train`` is ``parquet:birds``.
    """

    title: Name | None = None

    @property
    def label(self) -> str:
        """The title, or what stands in for it."""
        if self.title is not None:
            return self.title
        place = self.options.get("train", self.options.get("root", ""))
        if self.name in ("csv", "npy", "npz", "parquet", "image_folder") and isinstance(place, str):
            place = without_credentials(place)
            path = PurePosixPath(place.partition("://")[2] or place)
            folders = [part for part in (path.parent if path.suffix else path).parts if part != "/"]
            if self.name in ("csv", "npz") and path.suffix and "*" not in path.stem:
                folders.append(path.stem)  # tables in one folder are different data
            telling = [folder for folder in folders if folder.lower() not in _TELL_NOTHING]
            folder = (telling or folders or [""])[-1]
            return f"{self.name}:{folder}" if folder else self.name
        return self.name


DEFAULT_MODEL: Final = "default"
"""Stands for the default model of the kind of data."""


class ModelSection(_NamedPart):
    """``model``: the name of a model (or a dotted path) and its options.

    Attributes:
        name: Of a model, ``timm/<name>``, or ``package.module:function``; ``default`` takes the one
            of the kind of data.
    """

    name: str = DEFAULT_MODEL


class TrainableSection(_NamedPart):
    """``trainable``: a training loop of the user's own, ``package.module:function``, its options.

    It makes its model itself; of ``training`` it is given the number of epochs.

    Attributes:
        name: Of the function, ``package.module:function``.
    """


class SpaceSection(_Section):
    """The range of one hyperparameter: ``low`` and ``high`` (with ``log``), or ``choices``.

    Attributes:
        low: Least value.
        high: Largest value.
        log: Whether it is searched by factors rather than differences.
        choices: The values, where it is not a range.
    """

    low: Bound | None = None
    high: Bound | None = None
    log: bool = False
    choices: Annotated[
        tuple[Scalar, ...] | None, Strict(False), Field(max_length=_MOST_ENTRIES)
    ] = None

    @model_validator(mode="after")
    def _one_kind(self) -> SpaceSection:
        if self.choices is not None:
            if self.low is not None or self.high is not None or self.log:
                raise ValueError("give either choices, or low and high")
            if not self.choices:
                raise ValueError("choices is empty")
            return self
        if self.low is None or self.high is None:
            raise ValueError("give low and high, or choices")
        if not self.low <= self.high:
            raise ValueError(f"low = {self.low} is above high = {self.high}")
        if self.log and not self.low > 0:
            raise ValueError(f"low = {self.low} must be above 0 where log is true")
        return self


class LossSection(_Section):
    """One loss of ``losses``: its name, ranges of its own, values that are not searched.

    Attributes:
        name: Of a loss, or ``package.module:Class``; alone also ``- NAME``.
        space: Range of each hyperparameter that is searched; left out, the loss's own ranges.
        hyperparameters: Values of those that are not.
    """

    name: str
    space: dict[str, SpaceSection] = {}
    hyperparameters: dict[str, Scalar] = {}

    _short_form = model_validator(mode="before")(_name_alone)


class TrainingSection(_Section):
    """``training``: the recipe, the same for all trials (defaults: the papers' CIFAR recipe)."""

    epochs: Epochs = Recipe.epochs
    batch_size: Annotated[Count, Field(ge=2)] = Recipe.batch_size
    optimizer: OptimizerName = Recipe.optimizer
    lr: Positive = Recipe.lr
    momentum: Annotated[float, Field(ge=0, lt=1)] = Recipe.momentum
    nesterov: bool = Recipe.nesterov
    weight_decay: NonNegative = Recipe.weight_decay
    schedule: ScheduleName = Recipe.schedule
    milestones: Annotated[tuple[Fraction, ...], Strict(False), Field(max_length=_MOST_ENTRIES)] = (
        Recipe.milestones
    )
    lr_decay: Fraction = Recipe.lr_decay
    warmup_epochs: Annotated[float, Field(ge=0, le=100_000)] = Recipe.warmup_epochs
    clip_grad_norm: Positive | None = Recipe.clip_grad_norm
    augmentation: AugmentationName | None = Recipe.augmentation
    precision: Precision = Recipe.precision
    layout: Layout = Recipe.layout
    fused_optimizer: bool = Recipe.fused_optimizer
    eval_batch_size: Count = Recipe.eval_batch_size
    adapt_share: Annotated[float, Field(ge=0, lt=1)] = Recipe.adapt_share
    sync_batch_norm: bool = Recipe.sync_batch_norm
    class_weights: Annotated[
        Literal["balanced"] | tuple[Positive, ...] | None, BeforeValidator(_check_weights)
    ] = Recipe.class_weights

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> TrainingSection:
        if self.nesterov and not self.momentum > 0:
            raise ValueError("nesterov needs a momentum above 0")
        return self

    def config(self) -> Recipe:
        """The same as the plain object that the training loop takes."""
        return Recipe(**self.model_dump())


class EncoderSection(_Section):
    """``encoder``: the first of two stages (RefCal); its loss and its recipe.

    Given, an encoder is trained once for each seed and frozen, and the sweep's trials train a
    linear head on its features, by ``training``.

    Attributes:
        loss: What the encoder is trained by.
        training: Its recipe.
    """

    loss: LossSection = LossSection(name="supcon")
    training: TrainingSection = TrainingSection()

    @model_validator(mode="after")
    def _nothing_is_searched(self) -> EncoderSection:
        if self.loss.space:
            raise ValueError(
                "loss.space is not allowed, as the encoder is trained once; give "
                "loss.hyperparameters"
            )
        return self


BUDGETS: Final = ("trials", "max_epochs", "max_hours", "max_gpu_hours")
"""The keys of ``search`` that end it."""


def _joined(value: Any) -> Any:
    """``[val_ece, val_error]`` is kept as ``val_ece, val_error``."""
    if isinstance(value, list | tuple) and value and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return value


def _at_most(value: Any) -> Any:
    """``0.3`` is short for ``{at_most: 0.3}``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"at_most": value} if number else value


class ConstraintSection(_Section):
    """What a metric must keep to: one of these.

    Attributes:
        at_most: The largest value allowed.
        at_least: The smallest value allowed, of a metric of which more is better.
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

    def limit(self, metric: str) -> Limit:
        """The same for a metric."""
        sign = 1 if self.at_least is None and self.below_baseline is None else -1
        relative = self.at_most is None and self.at_least is None
        given = (self.at_most, self.at_least, self.above_baseline, self.below_baseline)
        (amount,) = (value for value in given if value is not None)
        return Limit(metric, sign * amount if not relative else amount, sign, relative)


class SearchSection(_Section):
    """``search``: how many trials, chosen how, to minimise what.

    ``trials``, ``max_epochs``, ``max_hours`` and ``max_gpu_hours`` are budgets: whichever comes
    first ends the search, published settings or not, while what the finalists need is left.

    Attributes:
        trials: Settings to try, the baseline and the published ones among them.
        sampler: What proposes settings once the published ones were tried.
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
            perfectly calibrated model would on so many samples: nothing that follows could be shown
            to be better. The finalists are trained all the same.
        warm_start: Earlier sweeps in the same storage, on the same data and model best, for the
            sampler to learn from; their trials are not this sweep's.
    """

    trials: Count = 50
    sampler: str = "tpe"
    seed: Annotated[int, Field(ge=0, le=_LARGEST_SEED)] = 0
    objective: Annotated[str, BeforeValidator(_joined)] = "val_ece"
    guard: Annotated[float, Field(ge=0, le=1)] = 0.01
    constraints: Annotated[dict[str, ConstraintSection], Field(max_length=_MOST_ENTRIES)] = {}
    max_epochs: Annotated[int, Field(gt=0, le=1_000_000_000)] | None = None
    max_hours: Positive | None = None
    max_gpu_hours: Positive | None = None
    stop_at_noise: bool = False
    warm_start: Annotated[
        tuple[Name, ...],
        Strict(False),
        BeforeValidator(_one_alone),
        Field(max_length=_MOST_ENTRIES),
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


class SchedulerSection(_Section):
    """``scheduler``: what stops poor trials early.

    Attributes:
        name: ``none`` lets all of them finish.
        metric: Which trials of the same loss are compared by; ECE does not do, as it is lowest
            before training begins.
        grace_period: Epochs that every trial may run; by default a ninth of them.
        reduction_factor: One of so many trials goes on at each rung, and rungs lie as far apart.
    """

    name: str = "asha"
    metric: str = "val_nll"
    grace_period: Epochs | None = None
    reduction_factor: Annotated[int, Field(ge=2, le=1_000)] = 3


class ScalingSection(_Section):
    """``scaling``: what one trial uses.

    Attributes:
        num_workers: Processes that train one trial together.
        cpus_per_worker: CPU cores of each.
        gpus_per_worker: ``auto`` gives trials GPUs where the cluster has them, small models a share
            of one; it is made a number when the sweep starts.
        max_concurrent: Trials at once at most; by default as many as there is room for.
    """

    num_workers: Resources = 1
    cpus_per_worker: Resources = 1
    gpus_per_worker: Gpus = "auto"
    max_concurrent: Count | None = None

    @property
    def gpus(self) -> float:
        """GPUs of each worker; none as long as that is not settled."""
        return 0.0 if self.gpus_per_worker == "auto" else self.gpus_per_worker

    @model_validator(mode="after")
    def _a_gpu_for_each_worker(self) -> ScalingSection:
        if self.num_workers > 1 and self.gpus_per_worker not in (0, 1, "auto"):
            raise ValueError(
                f"gpus_per_worker = {self.gpus_per_worker:g} is not allowed with num_workers = "
                f"{self.num_workers}; allowed: auto, 0 or 1, one GPU for each worker"
            )
        return self


class SelectionSection(_Section):
    """``selection``: the best settings, and the baseline, are trained again with new seeds.

    Attributes:
        finalists: How many settings.
        seeds: How many new seeds each.
    """

    finalists: Again = 3
    seeds: Again = 2

    @property
    def new_seeds(self) -> int:
        """How many there are of each finalist; none without finalists."""
        return self.seeds if self.finalists else 0

    def most_trials(self, searched: int) -> int:
        """How many trials the finalists and the baseline need at most, of so many settings."""
        return self.new_seeds * min(self.finalists + 1, searched)


class TrackingSection(_Section):
    """``tracking``: where MLflow keeps the runs.

    Attributes:
        uri: Its address; by default SQLite in the sweep store.
        experiment: What the runs are put under, such as the only one that its user may write to;
            by default one of the dataset's name and content.
        register_model: Whether the chosen classifier goes into its registry at the end, as
            ``champion`` of the dataset, and the runner-up as ``challenger``.
        system_metrics: Whether the sweep's own run has how busy the machines are: CPUs, memory,
            disk, network, and GPUs.
    """

    uri: str | None = None
    experiment: Annotated[str, Field(min_length=1)] | None = None
    register_model: bool = False
    system_metrics: bool = False


@dataclass(frozen=True)
class Limit:
    """What a metric must keep to.

    Attributes:
        metric: Such as ``val_nll``.
        amount: How far it may go: from 0, or from the baseline's.
        sign: 1 where it may not be higher, -1 where it may not be lower.
        relative: Whether it is measured from the baseline's, or where the baseline did not finish,
            from the best there is.
    """

    metric: str
    amount: float
    sign: int = 1
    relative: bool = False

    def excess(self, value: float, reference: float) -> float:
        """By how much a value is beyond it; it keeps to it at <= 0, which NaN does not.

        Args:
            value: The metric's.
            reference: What it is measured from; of no account where it is not relative.
        """
        most = self.amount + (self.sign * reference if self.relative else 0.0)
        found = self.sign * value - most
        return math.inf if math.isnan(found) else found

    def __str__(self) -> str:
        """``val_nll at most 0.3``, ``val_auroc at most 0.01 below cross-entropy's``."""
        if not self.relative:
            most = "at most" if self.sign == 1 else "at least"
            return f"{self.metric} {most} {self.sign * self.amount:g}"
        side = "above" if self.sign == 1 else "below"
        return f"{self.metric} at most {self.amount:g} {side} cross-entropy's"

    def broken(self, by_baseline: bool) -> str:
        """``NLL > 0.3``, ``error > baseline + 0.01``, ``AUROC < baseline - 0.01``.

        Args:
            by_baseline: Whether it is measured from the baseline's, and not from the best there is.
        """
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
    """What a sweep chooses by.

    Attributes:
        objective: The metric to be lowered, such as ``val_ece``.
        guard: By how much the validation error may exceed the baseline's, or where the baseline
            did not finish, the lowest there is.
        constraints: What other metrics must keep to besides.
        others: Further metrics to be lowered, where the answer is a Pareto front.
    """

    objective: str
    guard: float
    constraints: tuple[Limit, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def objectives(self) -> tuple[str, ...]:
        """All metrics to be lowered."""
        return (self.objective, *self.others)

    @property
    def limits(self) -> dict[str, Limit]:
        """All that a trial must keep to, by what it is called: ``guard``, and metrics."""
        guard = Limit("val_error", self.guard, relative=True)
        return {"guard": guard, **{limit.metric: limit for limit in self.constraints}}


class ElsewhereSection(_NamedPart):
    """One of ``evaluation.shift`` or ``evaluation.ood``: a shift set or a dataset, its options.

    Attributes:
        name: Of a shift set or dataset, or ``package.module:function``.
    """


class EvaluationSection(_Section):
    """``evaluation``: what finalists are tried on besides the test split, once they are trained.

    Attributes:
        shift: Sets of the same classes under other conditions.
        ood: Sets of other classes.
    """

    shift: Annotated[tuple[ElsewhereSection, ...], Strict(False)] = ()
    ood: Annotated[tuple[ElsewhereSection, ...], Strict(False)] = ()

    @property
    def sets(self) -> tuple[tuple[str, Literal["shift", "ood"], ElsewhereSection], ...]:
        """All of them: key, kind and section."""
        return (
            *((f"evaluation.shift.{i}", "shift", each) for i, each in enumerate(self.shift)),
            *((f"evaluation.ood.{i}", "ood", each) for i, each in enumerate(self.ood)),
        )

    @model_validator(mode="after")
    def _each_set_once(self) -> EvaluationSection:
        for key, sections in (("shift", self.shift), ("ood", self.ood)):
            names = [section.name for section in sections]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{key}: {', '.join(twice)} is named twice; name each set once")
        return self


class SweepFile(_Section):
    """A whole sweep file; ``name``, ``dataset`` and ``losses`` must be given.

    Attributes:
        name: Of the sweep, in the storage, MLflow and commands.
        dataset: What is learnt, and its options.
        model: What learns it, and its options.
        trainable: In place of a model, a training loop of one's own, and its options.
        losses: The losses to try; the cross-entropy baseline is always among them.
        encoder: Two stages (RefCal): an encoder trained first, and frozen.
        training: The recipe, the same for all trials.
        search: How many trials, chosen how, to minimise what.
        scheduler: What stops poor trials early.
        scaling: What one trial uses.
        selection: Who is trained again with new seeds.
        evaluation: What finalists are tried on besides the test split.
        tracking: Where MLflow keeps the runs.
    """

    name: Name
    dataset: DatasetSection
    model: ModelSection = ModelSection()
    trainable: TrainableSection | None = None
    losses: Annotated[
        tuple[LossSection, ...], Strict(False), Field(min_length=1, max_length=_MOST_ENTRIES)
    ]
    encoder: EncoderSection | None = None
    training: TrainingSection = TrainingSection()
    search: SearchSection = SearchSection()
    scheduler: SchedulerSection = SchedulerSection()
    scaling: ScalingSection = ScalingSection()
    selection: SelectionSection = SelectionSection()
    evaluation: EvaluationSection = EvaluationSection()
    tracking: TrackingSection = TrackingSection()

    @model_validator(mode="after")
    def _each_loss_once(self) -> SweepFile:
        names = [section.name for section in self.losses]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"losses: {', '.join(twice)} is named twice; name each loss once")
        return self

    @model_validator(mode="after")
    def _a_sample_for_each_worker(self) -> SweepFile:
        workers = self.scaling.num_workers
        for key, section in self.recipes:
            if section.batch_size < workers:
                raise ValueError(
                    f"{key}.batch_size = {section.batch_size} is not allowed with "
                    f"scaling.num_workers = {workers}, which share a batch; allowed: {workers} or "
                    "more"
                )
        return self

    @model_validator(mode="after")
    def _room_for_the_baseline(self) -> SweepFile:
        most, epochs = self.search.max_epochs, self.training.epochs
        if most is not None and most < epochs:
            raise ValueError(
                f"search.max_epochs = {most} is not allowed with training.epochs = {epochs}; "
                f"allowed: {epochs} or more, for the baseline's trial"
            )
        return self

    @model_validator(mode="after")
    def _gpu_hours_of_gpus(self) -> SweepFile:
        most = self.search.max_gpu_hours
        if most is not None and self.scaling.gpus_per_worker == 0:
            raise ValueError(
                f"search.max_gpu_hours = {most:g} is not allowed with scaling.gpus_per_worker = 0, "
                "as no GPU is used; leave it out, or give search.max_hours"
            )
        return self

    @model_validator(mode="after")
    def _own_data_of_own_loops(self) -> SweepFile:
        if self.dataset.name != OWN_DATA:
            return self
        if self.trainable is None:
            raise ValueError(
                f"dataset.name = {OWN_DATA!r} is for data that a training loop of your own reads; "
                "give trainable, or name the data"
            )
        classes = self.dataset.options.get("num_classes")
        known = isinstance(classes, int) and not isinstance(classes, bool) and classes >= 2
        if not known or self.dataset.title is None or len(self.dataset.options) > 1:
            raise ValueError(
                f"dataset.name = {OWN_DATA!r} takes title, what the data are called, and "
                "num_classes, a whole number of at least 2, and nothing else"
            )
        return self

    @model_validator(mode="after")
    def _own_loops_train_alone(self) -> SweepFile:
        if self.trainable is None:
            return self
        given = {
            "model": self.model != ModelSection(),
            "encoder": self.encoder is not None,
            "evaluation": bool(self.evaluation.sets),
            "tracking.register_model": self.tracking.register_model,
        }
        if besides := [key for key, is_given in given.items() if is_given]:
            raise ValueError(
                f"{besides[0]} is not possible together with trainable, whose loop makes and "
                "trains its model itself; leave one of them, or give the loop an option"
            )
        usual = TrainingSection()
        for key in TrainingSection.model_fields:
            # Precision is settled, and kept so, when a sweep starts.
            known = key in ("epochs", "adapt_share", "precision")
            if not known and getattr(self.training, key) != getattr(usual, key):
                raise ValueError(
                    f"training.{key} is not for a trainable, which has a recipe of its own; "
                    f"allowed: epochs, adapt_share; give the loop an option: trainable: {{name: "
                    f"{self.trainable.name}, {key}: ...}}"
                )
        return self

    @model_validator(mode="after")
    def _elsewhere_in_one_stage(self) -> SweepFile:
        if self.encoder is not None and self.evaluation.sets:
            raise ValueError("evaluation is not possible together with encoder; leave one of them")
        return self

    @property
    def parts(self) -> dict[str, dict[str, Any]]:
        """The options of all that is read from files, by their keys."""
        sets = {key: section.options for key, _, section in self.evaluation.sets}
        trained = "model" if self.trainable is None else "trainable"
        return {"dataset": self.dataset.options, trained: self.trained.options, **sets}

    @property
    def trained(self) -> ModelSection | TrainableSection:
        """What trains: the model, or the loop of the user's own."""
        return self.model if self.trainable is None else self.trainable

    @property
    def recipes(self) -> tuple[tuple[str, TrainingSection], ...]:
        """The recipes of all stages, by their keys."""
        encoder = (("encoder.training", self.encoder.training),) if self.encoder else ()
        return (("training", self.training), *encoder)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of the search, and the new ones of the finalists."""
        return tuple(range(self.search.seed, self.search.seed + self.selection.new_seeds + 1))

    @property
    def model_label(self) -> str:
        """What the model is called in MLflow: its name, and by what its encoder was trained."""
        return self.trained.name + (f"+{self.encoder.loss.name}" if self.encoder else "")

    @property
    def objectives(self) -> tuple[str, ...]:
        """The objectives as trials report them: ``val_cost`` of ``my_metrics:cost``."""
        return tuple(
            f"val_{given.rpartition(':')[2]}" if ":" in given else given
            for given in self.search.objectives
        )

    @property
    def objective(self) -> str:
        """The first of them, or the only one."""
        return self.objectives[0]

    @property
    def named(self) -> tuple[str, ...]:
        """What it names that may be the user's own."""
        encoder = [self.encoder.loss.name] if self.encoder is not None else []
        losses = (section.name for section in self.losses)
        return (self.dataset.name, self.trained.name, *losses, *encoder, *self.search.own_metrics)

    @property
    def rule(self) -> Rule:
        """What the sweep chooses by."""
        given = self.search.constraints.items()
        constraints = tuple(section.limit(metric) for metric, section in given)
        first, *others = self.objectives
        return Rule(first, self.search.guard, constraints, tuple(others))
