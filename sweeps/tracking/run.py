"""Tags, parameters and metrics of a trial's run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

from sweeps.messages.formatting import (
    escaped_markdown,
    finite,
    format_fraction,
    format_temperature,
)
from sweeps.results.columns import one_line, shown_metrics
from sweeps.results.refinement import parts_of_nll
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.messages import COSTS
from trainables.contract.metric_names import RARE_CLASS, MetricName, Statistic

# The parameters of every trial; hyperparameters cannot use these names.
_RECIPE = ("dataset", "model", "epochs", "batch_size", "optimizer", "lr", "weight_decay")
_RESERVED = {"loss", "seed", "guard", "objective", *_RECIPE}
_DIGITS = 4
RANK = "rank"
SWEEP = "sweep"
ADVICE = "calsweep.recommended"  # the tag with the recommended setting
DESCRIPTION = "mlflow.note.content"
KILLED = "KILLED"  # MLflow's status of runs of an interrupted sweep
METRICS = "metrics.json"  # the artifact with all metrics of a trial
_MOST_METRICS = 40  # of a run: MLflow draws a chart for each
_METRICS = ("error", "ece", "nll", "brier", "adaptive_ece", "classwise_ece", "auroc", "aurc")
_OF_TWO_CLASSES = ("error", "event_ece", *_METRICS[1:])


def run_tags(plan: Plan, sweep_id: str, record: TrialRecord, parent: str) -> dict[str, str]:
    return {
        "mlflow.parentRunId": parent,
        "mlflow.source.name": "calsweep",
        SWEEP: plan.name,
        "calsweep.sweep": plan.name,
        "calsweep.sweep_id": sweep_id,
        "calsweep.trial": str(record.number),
        # Exact values; parameters are rounded for reading.
        "calsweep.hyperparameters": json.dumps(record.hyperparameters),
        "role": record.role,
        "state": record.state,
        RANK: record.state,
    }


def end_tags(record: TrialRecord, objective: str) -> dict[str, str]:
    """Tags of a trial's state and outcome, rounded and with intervals; none while it runs."""
    if record.state == "running":
        return {}
    reason = {"reason": record.reason} if record.reason else {}
    words = _in_words(record, objective)
    return {
        "state": record.state,
        RANK: record.state,
        **reason,
        **words,
        DESCRIPTION: _description(record, words),
    }


def _description(record: TrialRecord, words: Mapping[str, str]) -> str:
    """A trial in one line: ``focal γ=2, finalist, finished: val error .0123, T 1.20``."""
    how = record.state + (f" ({record.reason})" if record.reason else "")
    found = ", ".join(f"{name} {value}" for name, value in words.items())
    text = f"{record.label}, {record.role}, {how}" + (f": {found}" if found else "")
    return escaped_markdown(" ".join(text.split()))


def word_columns(objective: str, *, rare: bool = False) -> dict[str, str]:
    """Metric → tag with its value as text."""
    return {
        name: one_line(heading) for name, heading in shown_metrics(objective, rare=rare).items()
    }


def ranks(ranking: Ranking) -> Iterator[tuple[int, str]]:
    """The rank of each trial; the selected setting has 1.

    All trials of a setting have the same rank, padded so that MLflow's table can sort by it. Trials
    beyond the guard, and failed or stopped ones, have words instead, which sort after all numbers.
    """
    for number, candidate in enumerate(ranking.candidates, start=1):
        rank = f"{number:>5}" if candidate.feasible else candidate.broken[0].too_far
        for record in candidate.trials:
            yield record.number, rank


def _in_words(record: TrialRecord, objective: str) -> dict[str, str]:
    outcome, words = record.outcome, {}
    for name, column in word_columns(objective, rare=RARE_CLASS in outcome).items():
        if name in outcome:
            words[column] = format_fraction(outcome[name])
            metric = MetricName.parse(name)
            low, high = (outcome.get(metric.with_statistic(end)) for end in ("low", "high"))
            if low is not None and high is not None:
                words[column] += f" [{format_fraction(low)}, {format_fraction(high)}]"
    if "temperature" in outcome:
        words["T"] = format_temperature(outcome["temperature"])
    return words


def hyperparameter_columns(names: Iterable[str]) -> dict[str, str]:
    """Hyperparameter → parameter of the run: the same name, unless the recipe uses it.

    For example, ``lr`` of a custom loss is ``loss.lr``.
    """
    return {name: f"loss.{name}" if name in _RESERVED else name for name in names}


def run_parameters(plan: Plan, record: TrialRecord) -> dict[str, str]:
    encoder = plan.sweep.encoder if record.role == "encoder" else None
    training = (encoder or plan.sweep).training
    columns = hyperparameter_columns(record.hyperparameters)
    # A custom loop ignores the other parameters.
    recipe = _RECIPE[2:] if plan.sweep.trainable is None else ("epochs",)
    return {
        "loss": record.loss,
        **{columns[name]: readable(value) for name, value in record.hyperparameters.items()},
        "seed": str(record.seed),
        "dataset": plan.sweep.dataset.label,
        "model": plan.sweep.model_label,
        **{name: str(getattr(training, name)) for name in recipe},
        "guard": str(plan.search.guard),
        "objective": plan.rule.objective,
    }


def sweep_parameters(plan: Plan, digest: str | None) -> dict[str, str]:
    known = {} if digest is None else {"dataset_digest": digest}
    found = plan.rule.constraints
    return {
        "dataset": plan.sweep.dataset.label,
        **known,
        "model": plan.sweep.model_label,
        "model_options": plan.sweep.trained.options_in_words,
        "losses": " ".join(section.name for section in plan.sweep.losses),
        "trials": str(plan.search.trials),
        "seed": str(plan.search.seed),
        "objective": plan.rule.objective,
        "guard": str(plan.search.guard),
        **({"other_objectives": " ".join(plan.rule.others)} if plan.rule.others else {}),
        **({"constraints": json.dumps(list(map(asdict, found)))} if found else {}),
    }


def shown_names(plan: Plan, classes: int | None) -> tuple[str, ...]:
    """The metrics that a trial's run shows first: those that decide, then the usual ones."""
    rule, usual = plan.rule, _OF_TWO_CLASSES if classes == 2 else _METRICS
    names = (
        "train_loss",
        *rule.objectives,
        *(limit.metric for limit in rule.limits.values()),
        plan.sweep.scheduler.metric,
        *shown_metrics(plan.rule.objective),
        *(str(MetricName(name, "val")) for name in usual),
        *(str(MetricName(name, "test")) for name in usual),
        *(str(MetricName(name, "test", scaled=True)) for name in usual[1:]),
        *(str(MetricName(name, "val", scaled=True)) for name in ("ece", "nll", "brier")),
        *(
            f"{split}_{part}"
            for split in ("val", "test")
            for part in ("nll_calibration", "refinement")
        ),
    )
    return tuple(dict.fromkeys(names))[:_MOST_METRICS]


def run_metrics(
    entries: Iterable[Mapping[str, float]], times: Mapping[int, int], first: Sequence[str]
) -> Iterator[tuple[str, float, int, int]]:
    """Name, value, time stamp in milliseconds and epoch of the metrics of epochs.

    A run has 40 metrics at most: `first` and, if there is room, others without the ends of
    intervals. All are in the artifact of :func:`metrics_file`. Epochs keep the given time stamps,
    because MLflow drops only what it has with the same one.
    """
    for entry in entries:
        epoch = int(entry["epoch"])
        time_stamp = times.get(epoch, int(1000 * entry["timestamp"]))
        values = _metrics_of(entry)
        others = sorted(name for name in values.keys() - set(first) if not is_statistic(name))
        kept = {*first, *others[: max(0, _MOST_METRICS - len(first))]}
        for name in values:
            if name in kept:
                yield name, float(values[name]), time_stamp, epoch


def metrics_file(record: TrialRecord) -> str:
    """All metrics of a trial's last epoch, with the ends of their intervals, as JSON."""
    return json.dumps(finite(_metrics_of(record.outcome)), indent=1)


def _metrics_of(entry: Mapping[str, float]) -> dict[str, float]:
    """Includes the parts of the NLL if it is known before and after scaling."""
    found = {**entry, **parts_of_nll(entry)}
    return {
        name: value for name, value in found.items() if name not in ("epoch", RARE_CLASS, *COSTS)
    }


def is_statistic(name: str) -> bool:
    return name.endswith(tuple(f"_{each}" for each in get_args(Statistic) if each))


def readable(value: Any) -> str:
    """A number with four significant digits, and no more zeros or spaces, so that it is found."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float) and math.isfinite(value) and value != 0:
        places = max(0, _DIGITS - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:.{places}f}"
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
