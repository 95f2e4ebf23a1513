"""What a sweep has found: the one type that every page, table and file renders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sweeps.results.columns import StoredRow
from sweeps.results.documents import to_document
from sweeps.results.evidence import Evidence
from sweeps.results.leaderboard import StoredFront
from sweeps.results.recommendation import Recommendation
from sweeps.results.verdicts import Comparison, leading
from sweeps.search.ranking import Ranking


@dataclass(frozen=True)
class Best:
    """The setting that a sweep selected.

    Attributes:
        loss: Name of the loss.
        hyperparameters: Values by name.
        val: Metrics on the validation split (``error``, ``ece``, ``nll`` and the objective), means
            over the fresh seeds, as fractions.
        test: The same metrics on the test split, which is never used for selection.
        temperature: Fitted temperature, the mean over the fresh seeds.
        verdict: Whether the setting is better than cross-entropy with temperature scaling:
            ``supported``, ``not supported`` (the difference may be chance) or ``worse``; None if
            they could not be compared.
    """

    loss: str
    hyperparameters: dict[str, object]
    val: dict[str, float]
    test: dict[str, float]
    temperature: float
    verdict: str | None

    @property
    def supported(self) -> bool:
        """Whether the setting is shown to be better than temperature-scaled cross-entropy."""
        return self.verdict == "supported"


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep, finished or not; see :func:`~sweeps.results.explanation.result_of`.

    Attributes:
        selected: The best setting by validation; None if no trial passed the guard.
        recommended: What to deploy; None while no setting is selected.
        verdict: Whether the selected setting beats scaled cross-entropy.
        failures: How many trials failed and why, a sentence; empty if none did.
        why: The reasons for the selection, the conclusion from the verdicts, how the sweep ended.
        rows: The leaderboard: settings, reference models, ensembles.
        candidates: Number of settings that the selection considered.
        guard_reference: The validation error that the guard is relative to.
        front: The Pareto front, if there are several objectives.
    """

    sweep: str
    dataset: str
    model: str
    objective: str
    selected: Best | None
    recommended: Recommendation | None
    verdict: str | None
    failures: tuple[str, ...]
    why: tuple[str, ...]
    rows: tuple[StoredRow, ...]
    evidence: Evidence
    candidates: int
    guard_reference: float | None
    front: StoredFront

    @property
    def leading_comparisons(self) -> list[Comparison]:
        """The verdicts to show first, two of them, and that of a recommended ensemble."""
        found = leading(self.evidence.comparisons)
        if self.recommended is not None and self.recommended.kind == "ensemble":
            found += [each for each in self.evidence.of_ensemble if each.split == "test"][:1]
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to use the result."""
        return self.evidence.warnings

    def to_json(self) -> dict[str, object]:
        """Plain data for ``answer.json`` and MLflow, from which :class:`Evidence` can be read."""
        own = to_document(self)
        found = {**own.pop("evidence"), **own, "chosen": own.pop("selected")}
        absent = {key for key in ("event", "confident", "front", "chosen") if found[key] is None}
        return {key: value for key, value in found.items() if key not in {"failures", *absent}}


@dataclass(frozen=True)
class Ending:
    """How a sweep ended: its trials, ranked, the result, and what makes the files about it."""

    ranking: Ranking
    result: SweepResult
    files: Callable[[], Mapping[str, str]] = dict

    @property
    def status(self) -> str:
        """``FAILED`` if every trial failed, else ``FINISHED``."""
        records = self.ranking.records
        failed = bool(records) and all(record.state == "failed" for record in records)
        return "FAILED" if failed else "FINISHED"
