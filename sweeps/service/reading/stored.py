"""The sweeps of a storage, read without MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sweeps.errors import UserError
from sweeps.messages.redaction import redact
from sweeps.messages.reporter import logger
from sweeps.results.best import Advice, TrackedSweep, data_unlike_all, named
from sweeps.results.documents import from_document
from sweeps.results.evidence import NOT_YET, Evidence
from sweeps.results.explanation import result_of
from sweeps.results.result import SweepResult
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.service.reading.mistakes import load_mistakes
from sweeps.store.code import code_warnings
from sweeps.store.first_files import read_earlier_candidates, read_skipped
from sweeps.store.identity import Identity, read_environment, read_identity
from sweeps.store.storage import left_out_if_unreadable
from sweeps.store.sweep_store import SweepStore, of_each_sweep


@dataclass(frozen=True)
class StoredSweep:
    """A sweep of a storage, finished or not: its store, its plan, and its trials, ranked."""

    store: SweepStore
    plan: Plan
    ranking: Ranking

    @classmethod
    def read(cls, name: str, storage: str) -> StoredSweep:
        """Errors are those of :meth:`~sweeps.store.sweep_store.SweepStore.load_sweep`."""
        store = SweepStore(storage, name)
        plan = store.load_plan()
        return cls(store, plan, Ranking(store.load_records(), plan.rule))

    @property
    def result(self) -> SweepResult:
        """What it has found so far."""
        evidence = load_evidence(self.store)
        if evidence is NOT_YET:
            changed = code_warnings(self.store.folder, self.ranking.records)
            evidence = replace(evidence, warnings=tuple(changed))
        return result_of(self.ranking, self.plan, evidence)

    @property
    def has_ended(self) -> bool:
        """Whether the result is final."""
        return self.store.load_answer() is not None

    def report(self, evidence: Evidence) -> str:
        """Its report as one HTML page."""
        from sweeps.pages.report import Kept, render_report  # its imports for drawing take a second

        return render_report(
            self.plan,
            self.ranking.records,
            evidence,
            self.store.rows,
            Kept(
                read_environment(self.store.folder),
                load_mistakes(self.store),
                read_skipped(self.store.folder),
                *class_and_label_names(self.store),
            ),
        )


def stored_sweeps(
    storage: str, dataset: str | None = None, model: str | None = None
) -> list[TrackedSweep]:
    """All sweeps of a storage that have trials, or those on a dataset and model of these names."""
    wanted = named(of_each_sweep(storage, _about), dataset, model)
    found = []
    for sweep in wanted:
        with left_out_if_unreadable(storage, sweep.name):
            found.append(_with_records(sweep, SweepStore(storage, sweep.name)))
    return [sweep for sweep in found if sweep.records]


def _with_records(sweep: TrackedSweep, store: SweepStore) -> TrackedSweep:
    records = store.load_records()
    tried = len(Ranking(records, sweep.rule).candidates)
    candidates = tried + read_earlier_candidates(store.folder)
    return replace(sweep, records=records, candidates=candidates)


def sweeps_on_test_split(store: SweepStore) -> int:
    """Number of sweeps in the storage that have evaluated a sweep's test split, itself included."""
    if (own := _identity(store)) is None:
        return 1

    def counts(other: SweepStore, _: Plan) -> bool:
        return other.name != store.name and _has_evaluated(own, other)

    try:
        return 1 + sum(of_each_sweep(store.storage, counts))
    except PermissionError as error:  # only this sweep may be read
        logger.warning("other sweeps on the test split are not counted: %s", error)
        return 1


def _identity(store: SweepStore) -> Identity | None:
    """The identity of a sweep's data; None if it is missing or damaged."""
    try:
        return read_identity(store.folder)
    except UserError as error:
        logger.warning("%s", error)
        return None


def _has_evaluated(own: Identity, other: SweepStore) -> bool:
    """Whether a trial of another sweep was evaluated on the same test split."""
    if (identity := _identity(other)) is None or not own.shares_test_split(identity):
        return False
    return any(r.state == "finished" and r.role != "encoder" for r in other.load_records())


def load_evidence(store: SweepStore) -> Evidence:
    if (kept := store.load_answer()) is None:
        return NOT_YET
    try:
        return from_document(Evidence, kept)
    except (ValueError, TypeError, KeyError):
        logger.warning("%s/answer.json is damaged; shown without comparisons", store.folder.uri)
        return NOT_YET


def read_stored_file(storage: str, name: str) -> str:
    """The resolved sweep file of a sweep, without credentials."""
    return redact(SweepStore(storage, name).folder.read("sweep.yaml").decode())


def class_and_label_names(store: SweepStore) -> tuple[Sequence[str], Sequence[str]]:
    """Names of a sweep's classes or labels; empty if they are unknown."""
    identity = _identity(store)
    return ((), ()) if identity is None else (identity.classes, identity.labels)


def _about(store: SweepStore, plan: Plan) -> TrackedSweep:
    parent, trials = store.load_run_ids()
    identity, answer = _identity(store), store.load_answer() or {}
    return TrackedSweep(
        name=plan.name,
        dataset=plan.sweep.dataset.label,
        data=identity.digest if identity is not None else data_unlike_all(store.sweep_id()),
        model=plan.sweep.model_label,
        model_options=plan.sweep.trained.options_in_words,
        rule=plan.rule,
        verdict=answer.get("verdict"),
        recommended=Advice.from_json(answer.get("recommended")),
        records=[],
        run_ids=trials,
        parent_id=parent,
    )
