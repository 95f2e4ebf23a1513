"""Checks of a sweep that need more than its text: whether names, options and values exist."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from optuna.distributions import CategoricalDistribution

from sweeps.errors import UserError
from sweeps.messages.redaction import is_redacted
from sweeps.search.rules import Limit, rule_of
from sweeps.search.samplers import SAMPLERS
from sweeps.search.space import loss_space
from sweeps.search.stopping import STOPPERS
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.data import OWN_DATA, DatasetSection
from sweeps.sweep_file.sections.losses import LossSection
from sweeps.sweep_file.sections.resources import TrackingSection
from sweeps.sweep_file.sections.search import SearchSection, SelectionSection
from sweeps.sweep_file.sections.training import DEFAULT_MODEL, ModelSection, TrainableSection
from trainables.contract.metric_names import MetricName
from trainables.plugins.arguments import did_you_mean

NamedSection = DatasetSection | ModelSection | TrainableSection


def check_sweep(sweep: SweepFile) -> None:
    """Check names, options and values of dataset, model, losses, hyperparameters and metrics.

    Nothing is loaded or trained. The working folder is on ``sys.path`` for dotted paths.

    Raises:
        UserError: Lists every fault with the key, the value and what is allowed.
    """
    from trainables.data import check_dataset_options
    from trainables.data.evaluation_sets import check_evaluation_sets
    from trainables.models import check_model_options
    from trainables.trials.own_loop import check_trainable

    use_working_folder()
    faults = _left_out(sweep.parts, sweep.tracking)
    parts: list[tuple[str, NamedSection | None, Callable[..., None]]] = [
        ("dataset", sweep.dataset, check_dataset_options),
        ("trainable", sweep.trainable, check_trainable),
        ("trainable.load", _loader(sweep.trainable), check_trainable),
        ("model", sweep.model, check_model_options),
    ]
    for key, section, check in parts:
        # The options of a default model are checked when it is known.
        if section is None or section.name in (OWN_DATA, DEFAULT_MODEL):
            continue
        faults += fault_of(f"{key}: ", check, section.name, **section.options)
    for key, kind, part in sweep.evaluation.sets:
        faults += fault_of(f"{key}: ", check_evaluation_sets, kind, part.name, **part.options)
    for loss in sweep.losses:
        faults += _loss_faults(loss, "losses") or _trains_nothing(loss)
    if sweep.encoder is not None:
        faults += _loss_faults(sweep.encoder.loss, "encoder.loss")
    faults += _faults_of_names(sweep)
    if faults:
        raise UserError("\n".join(faults))


def fault_of(prefix: str, check: Callable[..., object], *values: Any, **options: Any) -> list[str]:
    """The error of a check with these arguments, in a list; empty if there is none."""
    try:
        check(*values, **options)
    except (ValueError, TypeError) as error:
        return [f"{prefix}{error}"]
    return []


def _loader(loop: TrainableSection | None) -> TrainableSection | None:
    if loop is None or loop.load is None:
        return None
    return TrainableSection(name=loop.load, **loop.options)


def _left_out(parts: Mapping[str, Mapping[str, Any]], tracking: TrackingSection) -> list[str]:
    """Faults of addresses that were copied from output in which credentials are removed."""
    places = {
        f"{part}.{key}": value for part, options in parts.items() for key, value in options.items()
    }
    places |= {"tracking.uri": tracking.uri, "tracking.notify": tracking.notify}
    return [
        f"{key} = {value!r} lacks the credentials that it had: they are never shown or kept; write "
        "them in again, or give this machine a role or credentials of its own"
        for key, value in places.items()
        if isinstance(value, str) and is_redacted(value)
    ]


def use_working_folder() -> None:
    """Make the user's own modules next to the sweep file importable."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _loss_faults(section: LossSection, key: str) -> list[str]:
    from trainables.losses import hyperparameters, make_loss

    where = f"{key}: {section.name}"
    try:
        known = hyperparameters(section.name)
    except (ValueError, TypeError) as error:
        return [f"{key}: {error}"]
    faults = [
        f"{where}: {name!r} is not a hyperparameter of it{did_you_mean(name, known)}; "
        f"allowed: {', '.join(known) or 'none'}"
        for name in (*section.space, *section.hyperparameters)
        if name not in known
    ]
    both = sorted(set(section.space) & set(section.hyperparameters))
    faults += [f"{where}: {name} has a range and a value; give one of them" for name in both]
    if faults:
        return faults
    try:
        settings = _extremes(section)
    except ValueError as error:
        return [f"{where}: {error}"]
    for values in settings:
        faults += fault_of(f"{key}: ", make_loss, section.name, num_classes=10, **values)
    return list(dict.fromkeys(faults))


def _trains_nothing(section: LossSection) -> list[str]:
    from trainables.losses.registry import loss_class

    if getattr(loss_class(section.name), "trains_classifier", True):  # a plain nn.Module has none
        return []
    return [
        f"losses: {section.name} trains an encoder, not a classifier; give it as encoder.loss, and "
        "in losses those that train the linear head"
    ]


def _extremes(section: LossSection) -> list[dict[str, object]]:
    """Settings that together cover both ends of every range and every choice."""
    values: dict[str, Any] = {
        name: distribution.choices
        if isinstance(distribution, CategoricalDistribution)
        else (distribution.low, distribution.high)
        for name, distribution in loss_space(section).items()
    }
    # A hyperparameter without a default needs a value in each setting.
    first = {name: allowed[0] for name, allowed in values.items()} | section.hyperparameters
    return [first, *({**first, name: v} for name, allowed in values.items() for v in allowed[1:])]


def _faults_of_names(sweep: SweepFile) -> list[str]:
    """Unknown names of samplers, schedulers and metrics, and metrics that cannot be used so."""
    from trainables.metrics import EPOCH_METRICS, METRICS
    from trainables.metrics.own_metric import metric_name

    own = [metric_name(path) for path in sweep.search.own_metrics]
    lower = [metric.name for metric in METRICS.values() if not metric.higher_is_better]
    objectives = [*_of_validation(lower), *_of_validation(own)]
    of_trials = [*_of_validation(METRICS), *_of_validation(own)]
    at_rungs = [str(MetricName(name, "val")) for name in EPOCH_METRICS if name in lower]
    faults = _own_metric_faults(sweep.search)
    if len(set(sweep.objectives)) < len(sweep.objectives):
        faults.append(
            f"search.objective = {sweep.search.objective!r} names one twice; name each once"
        )
    for key, value, allowed in (
        ("search.sampler", sweep.search.sampler, list(SAMPLERS)),
        ("scheduler.name", sweep.scheduler.name, list(STOPPERS)),
        *(("search.objective", metric, objectives) for metric in sweep.objectives),
        ("scheduler.metric", sweep.scheduler.metric, at_rungs),
        *(("search.constraints", metric, of_trials) for metric in sweep.search.constraints),
    ):
        if value not in allowed:
            hint = did_you_mean(value, allowed)
            faults.append(f"{key} = {value!r} is not allowed{hint}; allowed: {', '.join(allowed)}")
    faults += _wrong_sides(rule_of(sweep).constraints, objectives, of_trials)
    return faults + _seeds_faults(sweep.search.objective, sweep.selection)


def _seeds_faults(objective: str, selection: SelectionSection) -> list[str]:
    """Seeds are added until a verdict is decided, so there must be one."""
    from trainables.metrics import COMPARABLE, METRICS

    allowed = _of_validation([name for name in COMPARABLE if not METRICS[name].higher_is_better])
    if selection.seeds != "auto" or objective in allowed:
        return []
    return [
        "selection.seeds = auto is not allowed with search.objective = "
        f"{objective!r}, which gets no verdict; allowed: one of "
        f"{', '.join(allowed)}, or a number of seeds"
    ]


def _of_validation(metrics: Iterable[str]) -> list[str]:
    return [str(MetricName(name, "val", scaled)) for scaled in (False, True) for name in metrics]


def _own_metric_faults(search: SearchSection) -> list[str]:
    from trainables.metrics.own_metric import own_metric

    return [fault for path in search.own_metrics for fault in fault_of("search.", own_metric, path)]


def _wrong_sides(
    limits: Iterable[Limit], lower_is_better: Sequence[str], known: Sequence[str]
) -> Iterator[str]:
    """Faults of constraints that bound a metric on its good side."""
    for limit in limits:
        lower = limit.metric in lower_is_better
        if limit.metric in known and lower != (limit.sign == 1):
            which, rest = ("less", "most, above") if lower else ("more", "least, below")
            yield (
                f"search.constraints.{limit.metric} bounds it on the wrong side, as {which} is "
                f"better; allowed: at_{rest}_baseline"
            )
