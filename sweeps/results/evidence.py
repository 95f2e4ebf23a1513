"""Verdicts and warnings at the end of a sweep, from its predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, PlainValidator

from sweeps.messages.confident import Confident
from sweeps.messages.formatting import metric_heading
from sweeps.messages.shares import Share, class_words, share_line
from sweeps.results.columns import StoredRow
from sweeps.results.reference import ReferenceResult, advice
from sweeps.results.scaling import ScalingRow
from sweeps.results.verdicts import Comparison
from sweeps.search.record import flat, known_fields
from sweeps.search.untried import Untried

_UNKNOWN = 3 * (math.nan,)  # files omit NaN
_Figure = Annotated[
    tuple[float, float, float], BeforeValidator(lambda kept: (*kept, *_UNKNOWN)[:3])
]


@dataclass(frozen=True)
class EventEvidence:
    """The probability of a class of a network on the test split, after its scaling.

    Attributes:
        event: The class.
        figures: Value and interval of its ECE, AUROC, calibration intercept and slope by name;
            empty with more than two classes.
    """

    label: str
    event: str
    share: Share
    figures: Mapping[str, _Figure] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """``focal on the test split: P(default) is 1.2 % on average, …``."""
        return f"{self.label} on the test split: {share_line(self.event, self.share)}"

    @property
    def more(self) -> list[str]:
        """The figures in a sentence; none with more than two classes."""
        shown = [
            f"{metric_heading(name)} {value:.4f}"
            + ("" if math.isnan(low) else f" [{low:.4f}, {high:.4f}]")
            for name, (value, low, high) in self.figures.items()
            if not math.isnan(value)
        ]
        return [f"P({class_words(self.event)}): {', '.join(shown)}."] if shown else []


@dataclass(frozen=True)
class SetsRow:
    """Prediction sets of a setting or an ensemble, means over its judged seeds.

    Attributes:
        target: How often they are made to hold the true class.
        coverage: How often they do on the test split; NaN as ``low`` and ``high``, the ends of its
            95 % interval, if there are fewer than 10 groups.
        size: Mean number of classes.
        per_class: Coverage of the samples of each class, with up to 20 classes.
    """

    label: str
    method: str
    target: float
    coverage: float
    size: float
    low: float = math.nan
    high: float = math.nan
    per_class: Sequence[float] = ()

    @property
    def least(self) -> int:
        """The place of the class that is covered least."""
        return self.per_class.index(min(self.per_class))

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.low)


@dataclass(frozen=True)
class Member:
    """A network of an ensemble, and its temperature."""

    trial: int
    label: str
    temperature: float


@dataclass(frozen=True)
class EnsembleEvidence:
    """Several networks of a sweep, see :func:`~sweeps.evidence.ensemble.judge_ensemble`.

    Attributes:
        networks: How many, which is the cost of a prediction.
        temperature: That of the scaling of their mean.
        nll: On the test split.
        scaling: Of their mean, as files have it.
        comparisons: With equally many seeds of cross-entropy, the test split first.
        offered: What to use if several networks are affordable: ``seeds`` of cross-entropy unless
            these are shown to be better.
        why: Sentences about them.
        advice: What to do if several networks are affordable; empty if undecided.
        seeds: The same of all seeds of cross-entropy.
    """

    row: StoredRow
    members: tuple[Member, ...]
    networks: int
    temperature: float
    nll: float = math.nan  # stores of format 1 have none
    scaling: Mapping[str, Any] | None = None
    sets: tuple[SetsRow, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    offered: Literal["seeds", "ensemble"] = "seeds"
    why: tuple[str, ...] = ()
    advice: str = ""
    seeds: EnsembleEvidence | None = None

    @property
    def of_baseline(self) -> bool:
        """Whether they are the seeds of cross-entropy."""
        return self.row.kind == "seeds"

    @property
    def trials(self) -> tuple[int, ...]:
        return tuple(sorted({member.trial for member in self.members}))


_StoredUntried = Annotated[
    Untried,
    PlainValidator(lambda kept: Untried(**known_fields(Untried, kept))),
    PlainSerializer(flat),
]


@dataclass(frozen=True)
class Evidence:
    """The evaluation of the selected setting, made once at the end of a sweep.

    Attributes:
        pairs: Comparisons of the losses in pairs, if the sweep compares them.
        warnings: Reasons not to use the result.
        candidates: Number of settings that the selection on these validation data considered,
            including those of earlier sweeps; None before the end.
        ensemble: See :func:`~sweeps.evidence.ensemble.judge_ensemble`.
        on_data: Sentences about the task, and what was noticed when the data were read.
        sets: See :func:`~sweeps.evidence.prediction_sets.judge_sets`.
        ends: Sentences about what ended the search, such as a budget.
        untried: The losses that were not tried.
        scalings: The scaling of the finalists, the selected setting and cross-entropy.
        event: Of the recommended network, if there are two classes.
        classes: The same of each class, if there are 3 to 20.
        confident: Of what is recommended, on the test split.
        against_reference: The best reference model compared with what is recommended.
    """

    comparisons: tuple[Comparison, ...] = ()
    warnings: tuple[str, ...] = ()
    candidates: int | None = None
    references: tuple[ReferenceResult, ...] = ()
    ensemble: EnsembleEvidence | None = None
    pairs: tuple[Comparison, ...] = ()
    sets: tuple[SetsRow, ...] = ()
    on_data: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    untried: tuple[_StoredUntried, ...] = ()
    scalings: tuple[ScalingRow, ...] = ()
    event: EventEvidence | None = None
    classes: tuple[EventEvidence, ...] = ()
    confident: Confident | None = None
    against_reference: Comparison | None = None

    @property
    def of_ensemble(self) -> tuple[Comparison, ...]:
        return () if self.ensemble is None else self.ensemble.comparisons

    @property
    def in_plain_words(self) -> list[str]:
        """A sentence for everybody: about the event if there is one, else about the confidence."""
        found = self.event or self.confident
        return [] if found is None else [found.line]

    @property
    def on_shares(self) -> list[str]:
        """The figures of the event; the classes whose probability is wrong beyond chance."""
        wrong = [each.line for each in self.classes if each.share.word != "neither"]
        return [*([] if self.event is None else self.event.more), *wrong]

    @property
    def all_comparisons(self) -> list[Comparison]:
        of_reference = [] if self.against_reference is None else [self.against_reference]
        return [*self.comparisons, *self.pairs, *self.of_ensemble, *of_reference]

    @property
    def better_reference(self) -> str:
        """What to say first if a reference model is shown to be better; empty if none is."""
        return advice(self.against_reference)

    @property
    def all_sets(self) -> list[SetsRow]:
        return [*self.sets, *(row for each in self.ensembles for row in each.sets)]

    @property
    def seeds(self) -> EnsembleEvidence | None:
        """All seeds of cross-entropy, if there are several."""
        return next((each for each in self.ensembles if each.of_baseline), None)

    @property
    def offered(self) -> EnsembleEvidence | None:
        """What to use if several networks are affordable; None if that is not decided."""
        if self.ensemble is None or self.ensemble.offered == "seeds":
            return self.seeds
        return self.ensemble if self.ensemble.comparisons else None

    @property
    def ensembles(self) -> list[EnsembleEvidence]:
        """The ensemble and the seeds of cross-entropy."""
        both = (self.ensemble, None if self.ensemble is None else self.ensemble.seeds)
        return [each for each in both if each is not None]


NOT_YET = Evidence()
"""Of a sweep that has not ended, or whose file or predictions cannot be read."""
