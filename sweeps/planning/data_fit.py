"""Fits a sweep to its data and machines, after loading the data and before any trial starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.messages.formatting import shortened
from sweeps.messages.reporter import Reporter
from sweeps.planning.checks import fault_of
from sweeps.planning.gpu_share import Machines, settle_devices
from sweeps.search.plan import Plan
from sweeps.sweep_file.schema import Stage, SweepFile, budget_faults
from sweeps.sweep_file.sections.training import DEFAULT_MODEL, ModelSection, TrainingSection
from trainables.contract.config import check_shares
from trainables.contract.metric_names import MetricName

if TYPE_CHECKING:
    from torch import nn

    from trainables.data.core.base import Data, Dataset


def resolve(written: SweepFile, data: Data, machines: Machines, reporter: Reporter) -> Plan:
    """The plan of a checked sweep file, with every default filled in.

    What was noticed in the data and decided about the machines is reported. Only the number of
    epochs may still change, see :mod:`sweeps.search.pilot`.

    Raises:
        UserError: The sweep does not suit its data, or a trial does not fit on the machines.
        SweepFailedError: The cluster's GPUs cannot be examined.
    """
    from trainables.data.core.base import Dataset

    fitted = fit_to_data(written, data) if isinstance(data, Dataset) else written
    for line in (*map(shortened, data.notes), *data.remarks):
        reporter.notice(line)
    settled, decided = settle_devices(fitted, data, machines, reporter)
    if decided is not None:
        reporter.notice(decided)
    plan = Plan(settled)
    if plan.search.trials == 1:
        from sweeps.planning.preview import untried  # Optuna takes a quarter of a second

        if no_loss := untried(plan):
            reporter.notice(no_loss)
    return plan


def fit_to_data(sweep: SweepFile, dataset: Dataset) -> SweepFile:
    """The sweep with a model and a complete recipe, whose defaults depend on the data.

    Raises:
        UserError: The model, an augmentation, a loss or a batch size does not suit the data; lists
            every fault.
    """
    from trainables.trials.trial import validation_parts

    faults = []
    if sweep.trainable is None:
        sweep = _completed(sweep, dataset)
        stages, workers = sweep.stages, sweep.scaling.num_workers
        checkpoint = sweep.encoder.checkpoint if sweep.encoder is not None else None
        faults = _model_faults(sweep.model, checkpoint, dataset)
        faults += _recipe_faults(stages, workers, dataset)
        faults += _weight_faults(stages, dataset)
        faults += _soft_label_faults(stages, dataset)
    faults += _task_faults(sweep, dataset)
    try:
        validation_parts(dataset.validation.labels, dataset, sweep.training.adapt_share)
    except ValueError as error:
        faults.append(f"training.{error}; or a larger dataset.validation")
    faults += _mixing_faults(sweep.stages[-1], dataset)
    faults += _objective_faults(sweep, dataset)
    faults += budget_faults(sweep)
    if faults:
        raise UserError("\n".join(faults))
    return sweep


def _objective_faults(sweep: SweepFile, dataset: Dataset) -> Iterator[str]:
    from trainables.metrics import METRICS
    from trainables.metrics.own_metric import check_own_metric

    num_classes = dataset.num_classes
    named = [("objective", each) for each in sweep.objectives]
    for key, name in (*named, *(("constraints", each) for each in sweep.search.constraints)):
        metric = METRICS.get(MetricName.parse(name).metric)
        if metric is not None and metric.two_classes and num_classes != 2:
            yield (
                f"search.{key} = {name!r} needs data of two classes, these have {num_classes}; "
                "allowed: val_ece or val_classwise_ece"
            )
    for path in sweep.search.own_metrics:
        yield from fault_of("search.", check_own_metric, path, num_classes)


def _completed(sweep: SweepFile, dataset: Dataset) -> SweepFile:
    """The sweep with the default model and the default recipe for such data."""
    if sweep.model.name == DEFAULT_MODEL:
        named = sweep.model.model_copy(update={"name": dataset.samples.default_model})
        sweep = sweep.model_copy(update={"model": named})
    update: dict[str, object] = {}
    if sweep.encoder is None:
        workers = sweep.scaling.num_workers
        training = _usual_recipe(sweep.training, sweep.model, len(dataset.train), workers)
    else:  # the defaults are the papers' recipes
        training = sweep.training.completed({})
        if not sweep.encoder.frozen:
            whole = sweep.encoder.training.completed({})
            update["encoder"] = sweep.encoder.model_copy(update={"training": whole})
    update["training"] = _with_batches(training, dataset)
    return sweep.model_copy(update=update)


def _usual_recipe(
    training: TrainingSection, model: ModelSection, samples: int, workers: int
) -> TrainingSection:
    from trainables.models.recipes import batch_size_for, completed, usual_recipe

    given = training.model_dump()
    whole = training.completed(completed(given, usual_recipe(model.name, model.options)))
    if "batch_size" in given:
        return whole
    size = batch_size_for(whole.batch_size, samples, workers)
    return whole.model_copy(update={"batch_size": size})


def _with_batches(recipe: TrainingSection, dataset: Dataset) -> TrainingSection:
    """With outputs per pixel, evaluation batches are not larger than training batches."""
    if dataset.task.cluster_size == 1 or recipe.eval_batch_size <= recipe.batch_size:
        return recipe
    return recipe.model_copy(update={"eval_batch_size": recipe.batch_size})


def _recipe_faults(stages: Sequence[Stage], workers: int, dataset: Dataset) -> Iterator[str]:
    samples = dataset.samples
    for key, recipe, *_ in stages:
        if recipe.augmentation not in (None, *samples.augmentations):
            yield (
                f"{key}.augmentation = {recipe.augmentation!r} is not for {samples}; allowed: "
                f"{', '.join(samples.augmentations)}"
            )
        size = recipe.batch_size
        yield from fault_of(f"{key}.", check_shares, len(dataset.train), size, workers)


def _losses_that(fit: Callable[[type[nn.Module]], bool]) -> str:
    from trainables.losses import available_losses, loss_class

    found = []
    for name in available_losses():
        with suppress(ValueError):  # a loss of another package may be broken
            found += [name] * fit(loss_class(name))
    return ", ".join(found)


def _weight_faults(stages: Sequence[Stage], dataset: Dataset) -> Iterator[str]:
    """Faults of weights: a wrong number of classes, or losses that are not means over samples."""
    from trainables.engine.class_weights import can_be_weighted, class_weights
    from trainables.losses import loss_class

    for key, recipe, _, losses in stages:
        weighted = ["dataset has weights of samples"] if dataset.train.weights is not None else []
        if recipe.class_weights is not None:
            weighted.append(f"{key}.class_weights")
            given, targets = recipe.class_weights, dataset.train.targets
            yield from fault_of(f"{key}.", class_weights, given, targets, dataset.num_classes)
        whole = [name for name in losses if not can_be_weighted(loss_class(name))]
        if weighted and whole:
            yield (
                f"{' and '.join(weighted)}: {', '.join(whole)} is no mean of terms of single "
                f"samples, which alone can be weighted; leave the one or the other out; allowed: "
                f"{_losses_that(can_be_weighted)}, and your own with looks_across_batch = False"
            )


def _soft_label_faults(stages: Sequence[Stage], dataset: Dataset) -> list[str]:
    def accepts(loss: type[nn.Module]) -> bool:
        return getattr(loss, "soft_targets", False)

    if dataset.train.soft is None:
        return []
    why = "defined for labels that are class probabilities, which this dataset has"
    return _refused(stages, accepts, why, "soft_targets")


def _task_faults(sweep: SweepFile, dataset: Dataset) -> list[str]:
    task = dataset.task
    faults = _refused(sweep.stages, task.accepts, f"for data with {task}", task.attribute)
    if task.decisions * task.cluster_size > 1:
        given = {"trainable": sweep.trainable is not None, "evaluation": sweep.evaluation.sets}
        if task.cluster_size > 1:
            given["encoder"] = sweep.encoder is not None
        faults += [
            f"{key} is for data with one class of each sample, and these have {task}; leave it out"
            for key, there in given.items()
            if there
        ]
    return faults


def _refused(
    stages: Sequence[Stage], takes: Callable[[type[nn.Module]], bool], what: str, attribute: str
) -> list[str]:
    """The losses that do not suit these data; ``attribute`` of a custom loss says that it does."""
    from trainables.losses import loss_class

    return [
        f"{key}: {', '.join(refused)} is not {what}; "
        f"allowed: {_losses_that(takes)}, and your own with {attribute} = True"
        for _, _, key, losses in stages
        if (refused := [name for name in losses if not takes(loss_class(name))])
    ]


def _model_faults(model: ModelSection, checkpoint: str | None, dataset: Dataset) -> list[str]:
    """Faults of the model, which is built once, as in a trial, and of its encoder's weights."""
    import torch

    from trainables.models import check_model_fits, check_model_options, model_for, without_weights
    from trainables.trials.two_stage import load_encoder_weights as load_weights

    name, options = model.name, model.options
    in_file = isinstance(options.get("pretrained"), str)
    try:
        check_model_options(name, **options)
        check_model_fits(name, dataset.samples)
        with torch.random.fork_rng(devices=[]):
            # The workers download pretrained weights.
            built = model_for(dataset, name, options if in_file else without_weights(name, options))
    except (ValueError, TypeError, OSError) as error:
        return [f"model: {error}"]
    return [] if checkpoint is None else fault_of("encoder.", load_weights, built, checkpoint)


def _mixing_faults(last: Stage, dataset: Dataset) -> list[str]:
    """Faults of losses that mix samples; in two-stage training the heads receive features."""
    from trainables.losses import loss_class

    return [
        f"{last.losses_key}: {name} mixes samples, and there is nothing between two "
        f"{dataset.samples}"
        for name in last.losses
        if getattr(loss_class(name), "mixes_inputs", False) and not dataset.samples.mixable
    ]
