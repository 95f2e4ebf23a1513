"""The columns of a table for papers: metrics of the test split, also after any scaling."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from sweeps.errors import UserError
from sweeps.messages.formatting import metric_heading
from sweeps.search.record import TrialRecord
from trainables.contract.metric_names import MetricName
from trainables.files.rows import ReadRows, Rows

TRAINING_TEMPERATURE: Final = "training_temperature"
_TEMPERATURES: Final = ("temperature", TRAINING_TEMPERATURE)
_OF_SETS: Final = ("ood_", "shift_")
_NOT_PERCENT: Final = ("nll", "nll_aurc", *_TEMPERATURES)


@dataclass(frozen=True)
class Column:
    """One value of a trial's network on the test split.

    Attributes:
        text: As asked for: ``ece``, ``ece_scaled``, ``ece@meta_calibration``, ``nll_gap@vector``,
            ``temperature``, or the name of a metric on another set, ``ood_svhn_auroc``.
        metric: Its metric, without what is done to the predictions.
        method: A post-hoc method that is fitted on the validation split, ``training_temperature``,
            or empty.
        gap: Whether it is what the method takes away from the metric, not the metric after it: the
            post-processing gap (Blasiok et al. 2024), with this method instead of the best of all
            smooth maps.
    """

    text: str
    metric: str
    method: str = ""
    gap: bool = False

    @classmethod
    def parse(cls, text: str) -> Column:
        """Raises UserError if there is no such column."""
        from trainables.metrics import METRICS
        from trainables.posthoc import available_posthoc

        name, at, method = text.partition("@")
        metric = MetricName.parse(name.removesuffix("_gap") if at else name)
        if text in _TEMPERATURES or (text.startswith(_OF_SETS) and not at):
            return cls(text, text)
        methods = (*available_posthoc(), TRAINING_TEMPERATURE)
        if at and method not in methods:
            raise UserError(f"after @ allowed: {', '.join(methods)}", "metrics", text)
        if metric.split or metric.metric not in METRICS or (at and metric.scaled):
            raise UserError(
                f"found {text!r}; allowed: {', '.join(METRICS)}, each with _scaled for its value "
                "after temperature scaling, @METHOD after another scaling, or _gap@METHOD for "
                f"what that takes away; {', '.join(_TEMPERATURES)}; and the metrics of sets of "
                "evaluation, such as ood_svhn_auroc",
                "metrics",
            )
        return cls(text, metric.metric, method, gap=at != "" and name.endswith("_gap"))

    @property
    def plain(self) -> MetricName:
        """The name in a trial's outcome, if there is no method."""
        return MetricName(self.metric, "test", self.text.endswith("_scaled"))

    @property
    def is_of_test(self) -> bool:
        """Whether it is a metric of the test split, in which losses compete."""
        return not self.gap and not self.text.startswith((*_TEMPERATURES, *_OF_SETS))

    @property
    def higher_is_better(self) -> bool:
        from trainables.metrics import METRICS

        return self.metric in METRICS and METRICS[self.metric].higher_is_better

    @property
    def is_percent(self) -> bool:
        return self.metric.removesuffix("_scaled") not in _NOT_PERCENT

    @property
    def heading(self) -> str:
        """``ECE``, ``ECE with T``, ``ECE with meta calibration``, ``NLL gap with vector``."""
        after = self.method.replace("_", " ") or ("T" if self.plain.scaled else "")
        return metric_heading(self.metric) + " gap" * self.gap + (f" with {after}" if after else "")

    def of(self, trial: TrialRecord, read: ReadRows) -> float:
        """The value of a trial; NaN if unknown. Errors are those of `read` and of the method."""
        from trainables.metrics import ON_REQUEST

        outcome, name = trial.outcome, str(self.plain) if self.is_of_test else self.metric
        if self.method == TRAINING_TEMPERATURE and self.method not in outcome:
            return math.nan
        if not self.method and (name in outcome or self.metric not in ON_REQUEST):
            return outcome.get(name, math.nan)
        rows = read("test", trial.number)
        value = _measured(self.metric, self._scaled(trial, read, rows))
        return _measured(self.metric, rows) - value if self.gap else value

    def _scaled(self, trial: TrialRecord, read: ReadRows, rows: Rows) -> Rows:
        from trainables.posthoc import make_posthoc

        if not self.method:
            return rows.scaled(trial.outcome["temperature"]) if self.plain.scaled else rows
        if self.method == TRAINING_TEMPERATURE:
            return rows.scaled(trial.outcome[TRAINING_TEMPERATURE])
        fitted = make_posthoc(self.method).fit(*read("validation", trial.number).tensors())
        return replace(rows, logits=fitted(rows.tensors()[0]).numpy())


def _measured(metric: str, rows: Rows) -> float:
    from trainables.trials.outcome import evaluate

    return evaluate(*rows.tensors(), (metric,), rows.decisions)[metric]
