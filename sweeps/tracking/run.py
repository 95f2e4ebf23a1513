"""Tags, parameters and metrics of a trial's run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sweeps.messages.formatting import format_fraction, format_temperature
from sweeps.results.columns import one_line, shown_metrics
from sweeps.results.refinement import parts_of_nll
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import rule_of
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.metric_names import MetricName
from trainables.contract.report import COSTS

# The parameters of every trial; hyperparameters cannot use these names.
_RECIPE = ("dataset", "model", "epochs", "batch_size", "optimizer", "lr", "weight_decay")
_RESERVED = {"loss", "seed", "guard", "objective", *_RECIPE}
_DIGITS = 4
RANK = "rank"
SWEEP = "sweep"
_WHOLE = 7  # characters of a number before its point


def run_tags(sweep: SweepFile, sweep_id: str, record: TrialRecord, parent: str) -> dict[str, str]:
    return {
        "mlflow.parentRunId": parent,
        "mlflow.source.name": "calsweep",
        SWEEP: sweep.name,
        "calsweep.sweep": sweep.name,
        "calsweep.sweep_id": sweep_id,
        "calsweep.trial": str(record.number),
        # Exact values; parameters are formatted for reading and sorting.
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
    return {"state": record.state, RANK: record.state, **reason, **_in_words(record, objective)}


def word_columns(objective: str) -> dict[str, str]:
    """Metric → tag with its value as text."""
    return {name: one_line(heading) for name, heading in shown_metrics(objective).items()}


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
    for name, column in word_columns(objective).items():
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


def run_parameters(sweep: SweepFile, record: TrialRecord) -> dict[str, str]:
    encoder = sweep.encoder if record.role == "encoder" else None
    training = (encoder or sweep).training
    columns = hyperparameter_columns(record.hyperparameters)
    # A custom loop ignores the other parameters.
    recipe = _RECIPE[2:] if sweep.trainable is None else ("epochs",)
    return {
        "loss": record.loss,
        **{columns[name]: sortable(value) for name, value in record.hyperparameters.items()},
        "seed": str(record.seed),
        "dataset": sweep.dataset.label,
        "model": sweep.model_label,
        **{name: str(getattr(training, name)) for name in recipe},
        "guard": str(sweep.search.guard),
        "objective": sweep.objective,
    }


def sweep_parameters(sweep: SweepFile, digest: str | None) -> dict[str, str]:
    known = {} if digest is None else {"dataset_digest": digest}
    found = rule_of(sweep).constraints
    return {
        "dataset": sweep.dataset.label,
        **known,
        "model": sweep.model_label,
        "model_options": sweep.trained.options_in_words,
        "losses": " ".join(section.name for section in sweep.losses),
        "trials": str(sweep.search.trials),
        "seed": str(sweep.search.seed),
        "objective": sweep.objective,
        "guard": str(sweep.search.guard),
        **({"other_objectives": " ".join(rule_of(sweep).others)} if rule_of(sweep).others else {}),
        **({"constraints": json.dumps(list(map(asdict, found)))} if found else {}),
    }


def run_metrics(
    entries: Iterable[Mapping[str, float]], times: Mapping[int, int]
) -> Iterator[tuple[str, float, int, int]]:
    """Name, value, time stamp in milliseconds and epoch of the metrics of epochs.

    Includes the parts of the NLL if it is known before and after scaling. Epochs keep the given
    time stamps, because MLflow drops only what it has with the same one.
    """
    for entry in entries:
        epoch = int(entry["epoch"])
        time_stamp = times.get(epoch, int(1000 * entry["timestamp"]))
        for name, value in {**entry, **parts_of_nll(entry)}.items():
            if name not in ("epoch", *COSTS):
                yield name, float(value), time_stamp, epoch


def sortable(value: Any) -> str:
    """A number with four significant digits and an aligned point, because MLflow sorts text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float) and math.isfinite(value) and value != 0:
        places = max(0, _DIGITS - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:.{places}f}"
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    whole, point, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole:>{_WHOLE}}{point if fraction else ''}{fraction}"
