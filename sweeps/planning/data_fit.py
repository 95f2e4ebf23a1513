"""Checks that a sweep fits its data, after loading them and before any trial starts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.planning.checks import fault_of
from sweeps.sweep_file.schema import DEFAULT_MODEL, SweepFile
from trainables.contract.config import check_shares

if TYPE_CHECKING:
    from torch import nn

    from trainables.data.core.base import Dataset


def fit_to_data(sweep: SweepFile, dataset: Dataset) -> SweepFile:
    """The sweep with a model and a complete recipe, whose defaults depend on the data.

    Raises:
        UserError: The model, an augmentation, a loss or a batch size does not suit the data; lists
            every fault.
    """
    from trainables.trials.trial import validation_parts

    faults = []
    if sweep.trainable is None:
        sweep = _with_recipes(_with_model(sweep, dataset), dataset)
        sweep = _with_batches(sweep, dataset)
        faults = _model_faults(sweep, dataset) + _recipe_faults(sweep, dataset)
        faults += _weight_faults(sweep, dataset) + _soft_label_faults(sweep, dataset)
    faults += _task_faults(sweep, dataset)
    try:
        validation_parts(dataset, sweep.training.adapt_share)
    except ValueError as error:
        faults.append(f"training.{error}; or a larger dataset.validation")
    faults += _loss_faults(sweep, dataset) + _objective_faults(sweep, dataset)
    faults += _budget_faults(sweep)
    if faults:
        raise UserError("\n".join(faults))
    return sweep


def _objective_faults(sweep: SweepFile, dataset: Dataset) -> list[str]:
    from trainables.metrics.own_metric import check_own_metric

    return [
        fault
        for path in sweep.search.own_metrics
        for fault in fault_of("search.", check_own_metric, path, dataset.num_classes)
    ]


def _with_model(sweep: SweepFile, dataset: Dataset) -> SweepFile:
    if sweep.model.name != DEFAULT_MODEL:
        return sweep
    named = sweep.model.model_copy(update={"name": dataset.samples.default_model})
    return sweep.model_copy(update={"model": named})


def _with_recipes(sweep: SweepFile, dataset: Dataset) -> SweepFile:
    from trainables.models.recipes import batch_size_for, completed, usual_recipe

    if sweep.encoder is not None:  # in two-stage training, the defaults are the papers' recipes
        whole = sweep.encoder.training.completed({})
        encoder = sweep.encoder.model_copy(update={"training": whole})
        update = {"training": sweep.training.completed({}), "encoder": encoder}
        return sweep.model_copy(update=update)
    given = sweep.training.model_dump()
    recipe = completed(given, usual_recipe(sweep.model.name, sweep.model.options))
    training = sweep.training.completed(recipe)
    if "batch_size" not in given:
        workers = sweep.scaling.num_workers
        size = batch_size_for(training.batch_size, len(dataset.train), workers)
        training = training.model_copy(update={"batch_size": size})
    return sweep.model_copy(update={"training": training})


def _budget_faults(sweep: SweepFile) -> list[str]:
    most, epochs = sweep.search.max_epochs, sweep.training.epochs
    if most is None or most >= epochs:
        return []
    return [
        f"search.max_epochs = {most} is less than training.epochs = {epochs}, which the baseline's "
        "trial needs; allowed: at least as many, or give fewer training.epochs"
    ]


def _with_batches(sweep: SweepFile, dataset: Dataset) -> SweepFile:
    """With outputs per pixel, evaluation batches are not larger than training batches."""
    recipe = sweep.training
    if dataset.task.cluster_size == 1 or recipe.eval_batch_size <= recipe.batch_size:
        return sweep
    smaller = recipe.model_copy(update={"eval_batch_size": recipe.batch_size})
    return sweep.model_copy(update={"training": smaller})


def _recipe_faults(sweep: SweepFile, dataset: Dataset) -> list[str]:
    samples, faults = dataset.samples, []
    for key, recipe in sweep.recipes:
        if recipe.augmentation not in (None, *samples.augmentations):
            faults.append(
                f"{key}.augmentation = {recipe.augmentation!r} is not for {samples}; allowed: "
                f"{', '.join(samples.augmentations)}"
            )
        workers = sweep.scaling.num_workers
        faults += fault_of(f"{key}.", check_shares, len(dataset.train), recipe.batch_size, workers)
    return faults


def _losses_that(fit: Callable[[type[nn.Module]], bool]) -> str:
    from trainables.losses import available_losses, loss_class

    found = []
    for name in available_losses():
        with suppress(ValueError):  # a loss of another package may be broken
            found += [name] * fit(loss_class(name))
    return ", ".join(found)


def _weight_faults(sweep: SweepFile, dataset: Dataset) -> list[str]:
    """Faults of weights: a wrong number of classes, or losses that are not means over samples."""
    from trainables.engine.class_weights import can_be_weighted, class_weights
    from trainables.losses import loss_class

    faults = []
    for key, recipe in sweep.recipes:
        weighted = ["dataset has weights of samples"] if dataset.train.weights is not None else []
        if recipe.class_weights is not None:
            weighted.append(f"{key}.class_weights")
            given, targets = recipe.class_weights, dataset.train.targets
            faults += fault_of(f"{key}.", class_weights, given, targets, dataset.num_classes)
        whole = [name for name in _losses(sweep, key) if not can_be_weighted(loss_class(name))]
        if weighted and whole:
            faults.append(
                f"{' and '.join(weighted)}: {', '.join(whole)} is no mean of terms of single "
                f"samples, which alone can be weighted; leave the one or the other out; allowed: "
                f"{_losses_that(can_be_weighted)}, and your own with looks_across_batch = False"
            )
    return faults


def _soft_label_faults(sweep: SweepFile, dataset: Dataset) -> list[str]:
    def accepts(loss: type[nn.Module]) -> bool:
        return getattr(loss, "soft_targets", False)

    if dataset.train.soft is None:
        return []
    why = "defined for labels that are class probabilities, which this dataset has"
    return _refused(sweep, accepts, why, "soft_targets")


def _task_faults(sweep: SweepFile, dataset: Dataset) -> list[str]:
    task = dataset.task
    faults = _refused(sweep, task.accepts, f"for data with {task}", task.attribute)
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
    sweep: SweepFile, takes: Callable[[type[nn.Module]], bool], what: str, attribute: str
) -> list[str]:
    """The losses that do not suit these data; ``attribute`` of a custom loss says that it does."""
    from trainables.losses import loss_class

    return [
        f"{'losses' if key == 'training' else 'encoder.loss'}: {', '.join(refused)} is not {what}; "
        f"allowed: {_losses_that(takes)}, and your own with {attribute} = True"
        for key, _ in sweep.recipes
        if (refused := [name for name in _losses(sweep, key) if not takes(loss_class(name))])
    ]


def _losses(sweep: SweepFile, key: str) -> list[str]:
    if key == "encoder.training":
        assert sweep.encoder is not None
        return [sweep.encoder.loss.name]
    return [section.name for section in sweep.losses]


def _model_faults(sweep: SweepFile, dataset: Dataset) -> list[str]:
    """Faults of the model, which is built once, as in a trial."""
    import torch

    from trainables.models import (
        check_model_fits,
        check_model_options,
        model_for,
        without_weights,
    )

    name, options = sweep.model.name, sweep.model.options
    in_file = isinstance(options.get("pretrained"), str)
    try:
        check_model_options(name, **options)
        check_model_fits(name, dataset.samples)
        with torch.random.fork_rng(devices=[]):
            # The workers download pretrained weights.
            model_for(dataset, name, options if in_file else without_weights(name, options))
    except (ValueError, TypeError, OSError) as error:
        return [f"model: {error}"]
    return []


def _loss_faults(sweep: SweepFile, dataset: Dataset) -> list[str]:
    from trainables.losses import loss_class

    losses = [("losses", section.name) for section in sweep.losses]
    if sweep.encoder is not None:
        losses = [("encoder.loss", sweep.encoder.loss.name)]  # its heads receive features
    return [
        f"{key}: {name} mixes samples, and there is nothing between two {dataset.samples}"
        for key, name in losses
        if getattr(loss_class(name), "mixes_inputs", False) and not dataset.samples.mixable
    ]
