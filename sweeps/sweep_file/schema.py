"""The sweep file as a frozen, typed object that refuses unknown keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field, Strict, ValidationError, model_validator

from sweeps.sweep_file.sections.data import OWN_DATA, DatasetSection, EvaluationSection
from sweeps.sweep_file.sections.fields import MOST_ENTRIES, Bound, Name, Section
from sweeps.sweep_file.sections.losses import LossSection
from sweeps.sweep_file.sections.resources import ScalingSection, TrackingSection
from sweeps.sweep_file.sections.search import (
    GUIDED_TRIALS,
    ScalingMethodSection,
    SchedulerSection,
    SearchSection,
    SelectionSection,
)
from sweeps.sweep_file.sections.training import (
    EncoderSection,
    ModelSection,
    TrainableSection,
    TrainingSection,
)
from trainables.contract.config import OF_PILOT
from trainables.contract.metric_names import MetricName


class Stage(NamedTuple):
    """One stage of a trial's training: its recipe, the names of its losses, and their keys."""

    key: str
    recipe: TrainingSection
    losses_key: str
    losses: tuple[str, ...]


_OF_FROZEN: Final = {"frozen", "checkpoint", "head"}
"""Keys of ``model`` that are short for those of ``encoder``."""


class SweepFile(Section, frozen=True):
    """A sweep file; ``name``, ``dataset`` and ``losses`` are required.

    Attributes:
        name: Name of the sweep in the storage, MLflow and commands.
        dataset: The dataset and its options.
        model: The model and its options.
        trainable: A custom training loop and its options, instead of a model.
        losses: The losses to try. The cross-entropy baseline is always added.
        encoder: Two-stage training (RefCal): an encoder that is trained first and frozen.
        training: The training recipe of all trials.
        search: How many trials, how they are proposed, and what is minimised.
        scheduler: Early stopping of poor trials.
        scaling: The resources of one trial.
        selection: Which settings are trained again with fresh seeds.
        scaling_method: How the validation split calibrates trained networks.
        evaluation: Sets besides the test split on which finalists are evaluated.
        reference: With ``auto`` the leaderboard includes the simplest well-known models for the
            kind of data: TF-IDF with logistic regression for texts, gradient boosting for tables, a
            linear model for images. ``none`` leaves them out.
        tracking: Where MLflow keeps the runs.
        published: Values of a paper on the test split, by loss and metric, as fractions:
            ``{focal: {ece: 0.0155, temperature: 1.1}}``. ``calsweep table`` prints them beside the
            measured ones.
    """

    name: Name
    dataset: DatasetSection
    model: ModelSection = ModelSection()
    trainable: TrainableSection | None = None
    losses: Annotated[
        tuple[LossSection, ...], Strict(False), Field(min_length=1, max_length=MOST_ENTRIES)
    ]
    encoder: EncoderSection | None = None
    training: TrainingSection = TrainingSection()
    search: SearchSection = SearchSection()
    scheduler: SchedulerSection = SchedulerSection()
    scaling: ScalingSection = ScalingSection()
    selection: SelectionSection = SelectionSection()
    scaling_method: ScalingMethodSection = ScalingMethodSection()
    evaluation: EvaluationSection = EvaluationSection()
    reference: Literal["auto", "none"] = "auto"
    tracking: TrackingSection = TrackingSection()
    published: dict[str, dict[str, Bound]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _frozen_models_are_encoders(cls, values: Any) -> Any:
        """``model: {frozen: true, checkpoint: …, head: …}`` is short for keys of ``encoder``."""
        model = values.get("model") if isinstance(values, dict) else None
        if not isinstance(model, dict) or not (given := set(model) & _OF_FROZEN):
            return values
        frozen, others = model.get("frozen"), sorted(given - {"frozen"})
        if frozen is not True and ":" in str(model.get("name")):
            return values  # options of your own model
        rest = {key: value for key, value in model.items() if key not in given}
        if frozen is False and not others:
            return {**values, "model": rest}
        if frozen is not True:
            key = others[0] if others else "frozen"
            raise ValueError(f"model.{key} needs model.frozen = true, got {frozen!r}")
        if values.get("encoder") is not None:
            raise ValueError("model.frozen is short for encoder.frozen; leave one of them")
        return {**values, "model": rest, "encoder": {key: model[key] for key in given}}

    @model_validator(mode="before")
    @classmethod
    def _guided_trials_are_few(cls, values: Any) -> Any:
        """A guided search has few trials of a loss, so ASHA has nothing to compare."""
        sections = dict(values) if isinstance(values, dict) else {}
        try:
            search = SearchSection.model_validate(sections.get("search") or {})
            selection = SelectionSection.model_validate(sections.get("selection") or {})
        except ValidationError:  # it is reported with the other errors
            return values
        if not search.is_guided:
            return values
        if "trials" not in search.model_fields_set and not selection.per_loss:
            given = {name: getattr(search, name) for name in search.model_fields_set}
            losses = sections.get("losses")
            named = len(losses) if isinstance(losses, list | tuple) else 1
            sections["search"] = {**given, "trials": max(GUIDED_TRIALS, 1 + named)}
        if not sections.get("scheduler"):
            sections["scheduler"] = {"name": "none"}
        return sections

    @model_validator(mode="after")
    def _sections_agree(self) -> SweepFile:
        for fault in _disagreements(self):
            raise ValueError(fault)
        return self

    @property
    def parts(self) -> dict[str, dict[str, object]]:
        """The options of everything that reads files, by key."""
        sets = {key: section.options for key, _, section in self.evaluation.sets}
        trained = "model" if self.trainable is None else "trainable"
        return {"dataset": self.dataset.options, trained: self.trained.options, **sets}

    @property
    def trained(self) -> ModelSection | TrainableSection:
        """The section of the model, or of the custom loop."""
        return self.model if self.trainable is None else self.trainable

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The training of the classifier, and that of its encoder if there is one."""
        losses = tuple(section.name for section in self.losses)
        stages = [Stage("training", self.training, "losses", losses)]
        if self.encoder and not self.encoder.frozen:
            own = (self.encoder.loss.name,)
            stages.append(Stage("encoder.training", self.encoder.training, "encoder.loss", own))
        return tuple(stages)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of the search, and the fresh ones that finalists may get."""
        return tuple(range(self.search.seed, self.search.seed + self.selection.most_seeds + 1))

    @property
    def model_label(self) -> str:
        """The model's label in MLflow: its name, and the loss of its encoder or ``frozen``."""
        if self.encoder is None:
            return self.trained.name
        return f"{self.trained.name}+{'frozen' if self.encoder.frozen else self.encoder.loss.name}"

    @property
    def objectives(self) -> tuple[str, ...]:
        """The objectives as trials report them: ``val_cost`` for ``my_metrics:cost``."""
        return tuple(
            str(MetricName(given.rpartition(":")[2], "val")) if ":" in given else given
            for given in self.search.objectives
        )

    @property
    def objective(self) -> str:
        return self.objectives[0]

    @property
    def named(self) -> tuple[str, ...]:
        """All names that may be dotted paths of custom code."""
        encoder = [self.encoder.loss.name] if self.encoder is not None else []
        losses = (section.name for section in self.losses)
        load = [self.trainable.load] if self.trainable and self.trainable.load else []
        trained = (self.trained.name, *load)
        return (self.dataset.name, *trained, *losses, *encoder, *self.search.own_metrics)


def _disagreements(sweep: SweepFile) -> Iterator[str]:
    """What is wrong with a sweep file whose sections are right by themselves."""
    names = [section.name for section in sweep.losses]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"losses: {', '.join(twice)} is named twice; name each loss once"
    workers = sweep.scaling.num_workers
    for stage in sweep.stages:
        if stage.recipe.batch_size < workers:
            yield (
                f"{stage.key}.batch_size = {stage.recipe.batch_size} is not allowed with "
                f"scaling.num_workers = {workers}, which share a batch; allowed: {workers} or more"
            )
    if "epochs" in sweep.training.model_fields_set:
        yield from budget_faults(sweep)
    if sweep.search.max_gpu_hours is not None and sweep.scaling.gpus_per_worker == 0:
        yield (
            f"search.max_gpu_hours = {sweep.search.max_gpu_hours:g} is not allowed with "
            "scaling.gpus_per_worker = 0, as no GPU is used; leave it out, or give search.max_hours"
        )
    if sweep.dataset.name == OWN_DATA:
        yield from _faults_of_own_data(sweep.dataset, sweep.trainable)
    if sweep.trainable is not None:
        yield from _faults_beside_own_loop(sweep, sweep.trainable)
    if sweep.encoder is not None:
        if sweep.encoder.frozen and sweep.training.augmentation not in (None, "none"):
            yield (
                f"training.augmentation = {sweep.training.augmentation} is not allowed with a "
                "frozen network, whose features are computed once; allowed: none"
            )
        given = {f"{stage.key}.patience": stage.recipe.patience for stage in sweep.stages}
        besides = [key for key, value in given.items() if value is not None]
        yield from (
            f"{key} is not possible together with encoder; leave one of them" for key in besides
        )


def budget_faults(sweep: SweepFile) -> Iterator[str]:
    """That the budget is too small for the baseline's trial, once its epochs are known."""
    most, epochs = sweep.search.max_epochs, sweep.training.epochs
    if most is not None and most < epochs:
        yield (
            f"search.max_epochs = {most} is not allowed with training.epochs = {epochs}; "
            f"allowed: {epochs} or more, for the baseline's trial"
        )


def _faults_of_own_data(dataset: DatasetSection, loop: TrainableSection | None) -> Iterator[str]:
    if loop is None:
        yield (
            f"dataset.name = {OWN_DATA!r} is for data that a training loop of your own reads; "
            "give trainable, or name the data"
        )
    classes = dataset.options.get("num_classes")
    known = isinstance(classes, int) and not isinstance(classes, bool) and classes >= 2
    if not known or dataset.title is None or len(dataset.options) > 1:
        yield (
            f"dataset.name = {OWN_DATA!r} takes title, what the data are called, and num_classes, "
            "a whole number of at least 2, and nothing else"
        )


def _faults_beside_own_loop(sweep: SweepFile, loop: TrainableSection) -> Iterator[str]:
    given = {
        "model": sweep.model != ModelSection(),
        "encoder": sweep.encoder is not None,
        "evaluation": bool(sweep.evaluation.sets),
        "scaling_method.training_temperature": sweep.scaling_method.training_temperature,
        "tracking.register_model": sweep.tracking.register_model and not loop.load,
    }
    for key in (key for key, is_given in given.items() if is_given):
        yield (
            f"{key} is not possible together with trainable, whose loop makes and trains its model "
            "itself; leave one of them, or give the loop an option"
        )
    usual = TrainingSection()
    for key in TrainingSection.model_fields:
        # Precision is resolved and stored when a sweep starts.
        known = key in ("epochs", *OF_PILOT, "adapt_share", "precision")
        if not known and getattr(sweep.training, key) != getattr(usual, key):
            yield (
                f"training.{key} is not for a trainable, which has a recipe of its own; "
                "allowed: epochs, patience, longest, adapt_share; give the loop an option: "
                f"trainable: {{name: {loop.name}, {key}: ...}}"
            )
