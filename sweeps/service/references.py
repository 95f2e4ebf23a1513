"""The reference models of a sweep: fitted, stored like trials, compared with what it recommends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.errors import first_line
from sweeps.evidence.comparison import compare_handed_out
from sweeps.evidence.scaling import scaled_rows, scaling_row
from sweeps.messages.reporter import Reporter, logger
from sweeps.results.evidence import Evidence
from sweeps.results.recommendation import Recommendation
from sweeps.results.reference import ReferenceResult, deliverable
from sweeps.results.scaling import ScalingRow
from sweeps.results.verdicts import Comparison
from sweeps.search.plan import Plan
from sweeps.service.delivery.delivered import Delivered, read_on_test
from sweeps.service.delivery.loading import MODEL, select_ensemble
from sweeps.service.reading.stored import StoredSweep, sweeps_on_test_split
from sweeps.store.sweep_store import SweepStore
from trainables.contract.metric_names import groups_name

if TYPE_CHECKING:
    from trainables.data.core.base import Data
    from trainables.trials.reference_models import Reference


def fit_references(
    plan: Plan, store: SweepStore, dataset: Data, reporter: Reporter
) -> tuple[ReferenceResult, ...]:
    """Fit the reference models and store them; empty if they cannot be fitted."""
    from trainables.data.core.base import Dataset

    if plan.sweep.reference == "none" or not isinstance(dataset, Dataset):
        return ()
    from trainables.trials.reference_models import reference_models

    reporter.stage("Fitting the reference models")
    found: list[ReferenceResult] = []
    try:
        for each in reference_models(dataset, plan.sweep.search.seed):
            number = -1 - len(found)
            folder = store.trial_folder(number)
            store.patiently(folder.write, MODEL, each.model.to_bytes())
            for split, rows in (("validation", each.validation), ("test", each.test)):
                store.patiently(rows.write, folder, split)
            outcome = _outcome(each, plan)
            found.append(ReferenceResult(each.name, outcome, len(dataset.test), number))
    except (ValueError, MemoryError) as error:  # the libraries raise ValueErrors
        logger.error("there is no reference model", exc_info=error)
        reporter.notice(f"no reference model: {first_line(error)}")
    return tuple(found)


def _outcome(reference: Reference, plan: Plan) -> dict[str, float]:
    from trainables.trials.outcome import Extent, summarise

    validation, test = reference.validation, reference.test
    extent, criterion = Extent.whole(plan.rule.objectives), plan.rule.scaling.criterion
    found = summarise(validation, test, extent=extent, criterion=criterion)
    if test.num_groups is not None:
        found[groups_name("test")] = float(test.num_groups)
    return found


def reference_scalings(
    sweep: StoredSweep, references: Sequence[ReferenceResult]
) -> list[ScalingRow]:
    """The scaling of each reference model; errors are those of reading predictions."""
    read, way = sweep.store.rows_patiently, sweep.plan.rule.scaling
    return [scaling_row((each.record,), read, way) for each in references]


def compare_reference(
    sweep: StoredSweep, evidence: Evidence, recommended: Recommendation | None
) -> list[Comparison]:
    """The best reference model, by validation, against what is recommended, on the test split.

    Both are handed out with their scaling, and decided by NLL. Empty if one of them is missing;
    errors are those of reading predictions.
    """
    best = deliverable(evidence.references)
    if best is None or recommended is None:
        return []
    one = (r for r in sweep.ranking.records if (r.number,) == recommended.trials)
    offered = None if evidence.ensemble is None else evidence.ensemble.offered
    networks = next(one, None) or select_ensemble(sweep, offered)
    if (theirs := read_on_test(sweep, Delivered(networks, True, recommended.why))) is None:
        return []
    ours = scaled_rows(sweep.store.rows_patiently, best.record, sweep.plan.rule.scaling)
    sweeps = sweep.store.patiently(sweeps_on_test_split, sweep.store)
    return [compare_handed_out(ours, theirs, sweeps, (best.name, recommended.name))]
