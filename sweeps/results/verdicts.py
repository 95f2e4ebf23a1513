"""The verdicts of a sweep, their basis and conclusion, for the terminal, the report and MLflow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import PlainSerializer, PlainValidator

from sweeps.messages.formatting import counted, metric_heading
from trainables.contract.metric_names import FEWEST_CLUSTERS

ERROR = 0.05  # the probability that an interval misses, over all sweeps on a test split
_SCALED = (" + scaling", " + temperature scaling")  # in files; the second until format 1
ENSEMBLE = "ensemble"
UNCHANGED_BY_TEMPERATURE = ("error",)  # a temperature does not change the most probable class
CALIBRATION_PART = "nll_calibration"  # NLL - NLL after a temperature
Verdict = Literal["supported", "not supported", "worse"]
Split = Literal["validation", "test"]


def error_of(sweeps: int) -> float:
    """How often an interval on the test split may miss, for the k-th sweep evaluated on it.

    The shares 1 / (k (k + 1)) sum to 1, so that all sweeps together miss in at most 5 % of cases,
    however many follow.
    """
    return ERROR / (sweeps * (sweeps + 1))


@dataclass(frozen=True)
class Arm:
    """A side of a comparison: networks of a setting, as they are or after their scaling."""

    setting: str
    scaled: bool = False

    @classmethod
    def parse(cls, text: str) -> Arm:
        """From :meth:`__str__` in a file."""
        ending = next((each for each in _SCALED if text.endswith(each)), "")
        return cls(text.removesuffix(ending), ending != "")

    def __str__(self) -> str:
        return self.setting + _SCALED[0] * self.scaled

    @property
    def short(self) -> str:
        """Such as ``cross_entropy, scaled``."""
        return f"{self.setting}, scaled" if self.scaled else self.setting


_Side = Annotated[Arm, PlainValidator(Arm.parse), PlainSerializer(str)]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The selected setting compared with another one.

    Attributes:
        value: Difference of the metric, ours minus theirs; means over the runs.
        low: Lower end of its interval over samples and seeds; NaN if it is not known.
        verdict: ``supported`` (ours is better), ``not supported`` (it may be chance) or ``worse``.
        seeds: Number of runs of each; 0 if trained classifiers are compared, without new runs.
        split: The split of the samples; ``test`` took no part in the selection.
        corrected_for: On the validation split, the number of settings that ours was selected from;
            on the test split, the number of sweeps that were evaluated on it, this one included.
            The interval is corrected for this, see :func:`error_of`.
        looks: Number of times that this verdict may be computed, each time with more seeds. All
            looks share the allowed error.
        chance: If further looks are possible, the predicted probability of ``supported`` at the
            last one; otherwise None.
        groups: Number of groups, such as patients, in the split; None if samples are independent.
    """

    ours: _Side
    theirs: _Side
    metric: str
    value: float
    low: float = math.nan
    high: float = math.nan
    verdict: Verdict
    seeds: int
    split: Split = "validation"
    corrected_for: int | None = None
    looks: int = 1
    chance: float | None = None
    groups: int | None = None

    @property
    def difference(self) -> str:
        """``-0.0123 [-0.0200, -0.0046]``, with the number of groups if they are the unit."""
        unknown = math.isnan(self.low)
        ends = "no interval" if unknown else f"[{self.low:+.4f}, {self.high:+.4f}]"
        if self.groups is not None:
            few = self.groups < FEWEST_CLUSTERS
            ends = "no interval" if few else ends
            ends += f", {counted(self.groups, 'group')}" + f"; {FEWEST_CLUSTERS} are needed" * few
        return f"{self.value:+.4f} {ends}"


def deciding(comparisons: Sequence[Comparison]) -> Comparison | None:
    """The comparison that decides the verdict, if there is one.

    This is the comparison with scaled cross-entropy; for a metric that no temperature changes, with
    cross-entropy as it is. The test split takes precedence.
    """
    found = [
        each
        for each in comparisons
        if each.theirs.scaled or each.metric in UNCHANGED_BY_TEMPERATURE
    ]
    return next((each for each in found if each.split == "test"), found[0] if found else None)


def leading(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The verdicts to show first: against cross-entropy as it is, and scaled."""
    plain = _on_plain(comparisons)
    first = next((c for c in plain if c.metric == CALIBRATION_PART), plain[0] if plain else None)
    found = (first, deciding(comparisons))
    return list(dict.fromkeys(each for each in found if each is not None))


def _on_plain(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Against cross-entropy as it is on the test split."""
    return [c for c in comparisons if c.split == "test" and not c.theirs.scaled]


def verdict(comparisons: Sequence[Comparison]) -> Verdict | None:
    """Whether the selected setting beats scaled cross-entropy, by :func:`deciding`."""
    found = deciding(comparisons)
    return None if found is None else found.verdict


def reading(comparisons: Sequence[Comparison]) -> list[str]:
    """What the values of comparisons mean, a sentence each."""
    lines = ["A value below 0 favours the setting in the heading; scaled: as it is handed out."]
    if any(each.metric == CALIBRATION_PART for each in comparisons):
        lines.append("Avoidable NLL is what a temperature would take off the NLL.")
    return lines


def basis(comparisons: Sequence[Comparison]) -> list[str]:
    """The basis of the intervals, a sentence each; empty without comparisons."""
    if not comparisons:
        return []
    lines = reading(comparisons)
    for each in comparisons:
        unit = "samples" if each.groups is None else "groups"
        lines.append(
            f"Intervals for {each.ours.setting} are over {unit} alone: both are already trained."
            if not each.seeds or each.ours.setting == ENSEMBLE
            else f"Intervals are over {unit} and {counted(each.seeds, 'seed')}."
        )
        if each.split == "test":
            sweeps = each.corrected_for or 1
            lines.append(
                "The test split took no part in the selection. Intervals on it have a level of "
                f"{100 - 100 * error_of(sweeps):.4g} %: this is sweep {sweeps} on this split, and "
                "all together miss in at most 5 %."
            )
        elif each.corrected_for:
            looks = f" and for {each.looks} looks at the verdict" if each.looks > 1 else ""
            lines.append(
                "On the validation split intervals are corrected for the selection among "
                f"{counted(each.corrected_for, 'setting')}{looks}."
            )
    compared = {(each.ours, each.theirs, each.split, each.metric) for each in comparisons}
    if len(compared) < len(comparisons):
        lines.append(
            "Of two rows with the same names, the first is about the selected setting alone; the "
            "second, like those of other losses, is corrected for all pairs of losses."
        )
    return list(dict.fromkeys(lines))


def conclusion(of_setting: Sequence[Comparison]) -> list[str]:
    """Whether the setting is better calibrated than plain cross-entropy, by the part of the NLL.

    The verdict by its own metric is added, but does not decide. The verdict against scaled
    cross-entropy is in the recommendation, see :mod:`sweeps.results.recommendation`.
    """
    plain = _on_plain(of_setting)
    found = next((each for each in plain if each.metric == CALIBRATION_PART), None)
    if found is None:
        return []
    also = [f" ({metric_heading(c.metric)}: {c.verdict})" for c in plain if c != found]
    return [
        f"Better calibrated than {plain[0].theirs} without a temperature: {found.verdict}, "
        f"by {metric_heading(CALIBRATION_PART)} on the test split{''.join(also)}."
    ]
