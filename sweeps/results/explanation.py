"""The result in words: what was selected, why, and how certain that is."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sweeps.messages.formatting import (
    counted,
    format_hyperparameters,
    format_setting,
    metric_heading,
)
from sweeps.results.columns import objective_metric
from sweeps.results.evidence import NOT_YET, Evidence
from sweeps.results.headline import interval_words
from sweeps.results.leaderboard import front_rows, leaderboard, untried_rows
from sweeps.results.recommendation import recommend
from sweeps.results.reference import reference_rows
from sweeps.results.result import Best, SweepResult
from sweeps.results.verdicts import conclusion, verdict
from sweeps.search.plan import Plan
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from sweeps.sweep_file.sections.training import TrainingSection
from trainables.contract.metric_names import MetricName

_USUAL: Final = TrainingSection()


def reasons(ranking: Ranking, training: TrainingSection, evidence: Evidence) -> list[str]:
    """Sentences about the selection, the conclusion from the verdicts, ensemble and data."""
    return [
        *explain_choice(ranking, training),
        *on_failures(ranking.records),
        *on_stopped(ranking.records),
        *(_on_failed_finalists(ranking) or conclusion(evidence.comparisons)),
        *(() if evidence.ensemble is None else evidence.ensemble.why),
        *evidence.on_shares,
        *evidence.on_data,
    ]


def on_failures(records: Sequence[TrialRecord]) -> list[str]:
    """How many trials failed, among them those with fresh seeds, and why; empty if none did."""
    if not (failed := [record for record in records if record.state == "failed"]):
        return []
    why = "; ".join(_reasons(failed))
    finals = [record for record in records if record.role == "finalist"]
    fresh = sum(record.state == "failed" for record in finals)
    among = f", {fresh} of the {len(finals)} with fresh seeds" if fresh else ""
    return [f"Failed: {len(failed)} of {counted(len(records), 'trial')}{among} ({why})."]


def on_stopped(records: Sequence[TrialRecord]) -> list[str]:
    """How many trials the scheduler stopped, and why; empty if none."""
    if not (stopped := [record for record in records if record.state == "stopped"]):
        return []
    why = "; ".join(_reasons(stopped))
    return [
        f"Stopped early, as other trials of their loss were better there: {len(stopped)} of "
        f"{counted(len(records), 'trial')} ({why})."
    ]


def _on_failed_finalists(ranking: Ranking) -> list[str]:
    """What to do if no trial with a fresh seed finished, although some were run."""
    finals = [record for record in ranking.records if record.role == "finalist"]
    if not finals or ranking.chosen is None or any(c.seeds for c in ranking.candidates):
        return []
    if any(record.state == "running" for record in finals):
        return []
    return [
        "Every trial with a fresh seed failed: find out why they failed and run the sweep again."
    ]


def explain_choice(ranking: Ranking, training: TrainingSection = _USUAL) -> list[str]:
    """Why the setting was selected, how certain that is, and its test results."""
    chosen, baseline, guard = ranking.chosen, ranking.baseline, ranking.rule.guard
    limits = [f", {limit}" for limit in ranking.rule.constraints]
    if chosen is None:
        return [
            "No setting is selected: no trial ran to its end with a validation error within "
            f"{guard:g} of the baseline's{''.join(limits)}.",
            *_infeasible(ranking),
        ]
    objective = ranking.rule.objective
    over = "one seed; selection.finalists and selection.seeds train it again"
    if chosen.seeds:
        over = f"mean over {counted(chosen.seeds, 'fresh seed')}"
    elif any(r.role == "finalist" and r.setting == chosen.setting for r in ranking.records):
        over = "one seed; no trial of it with a fresh seed has finished"
    above = chosen.val_error - (chosen if baseline is None else baseline).val_error
    noise = ", within noise" if above > guard else ""
    among = (
        f"among settings whose validation error is at most {guard:g} above cross-entropy's{noise}"
        if baseline is not None
        else f"among settings whose validation error is at most {guard:g} above the "
        f"lowest, as the cross-entropy baseline did not finish{_baseline_reason(ranking)}"
    )
    given = chosen.setting.hyperparameters
    values = [format_hyperparameters(given)] if given else []
    lines = [
        f"Selected: {' '.join([chosen.loss, *values])} – the "
        f"lowest {objective}, {chosen.objective:.4f} ({over}), {among}{''.join(limits)}.",
        *_on_fewer_seeds(ranking, chosen),
        *_infeasible(ranking),
    ]
    if baseline is not None and baseline != chosen:
        lines.append(
            f"The cross-entropy baseline has {baseline.objective:.4f}, validation error "
            f"{baseline.val_error:.4f} (selected: {chosen.val_error:.4f})."
        )
    return [
        *lines,
        *_front(ranking),
        *_context(chosen, objective),
        *_on_the_validation_split(training),
        _on_the_test_split(chosen, objective_metric(objective)),
        *_on_evaluation_sets(chosen),
    ]


def _on_the_validation_split(training: TrainingSection) -> Iterator[str]:
    if training.adapt_share:
        yield (
            f"{training.adapt_share:.0%} of the validation split is reserved for adapting (some "
            "losses, the temperature); the rest is used for evaluation."
        )
    if training.keep != "last":
        yield (
            f"The result of a trial is its epoch with the lowest {training.keep}, which the "
            "validation split selected too: validation values are optimistic, those of the test "
            "split are not."
        )


def _on_fewer_seeds(ranking: Ranking, chosen: Candidate) -> list[str]:
    """Why a setting with a lower mean is not selected, if that is for its fewer seeds."""
    return [
        f"{format_setting(each.loss, each.setting.hyperparameters)} has {each.objective:.4f} with "
        f"{counted(each.seeds, 'fresh seed')}, which is not lower by more than the noise of fewer "
        "seeds."
        for each in ranking.candidates
        if each.feasible and each.tier == chosen.tier and each.objective < chosen.objective
    ]


def _front(ranking: Ranking) -> Iterator[str]:
    names = ranking.rule.objectives
    if len(names) == 1:
        return
    yield (
        f"Pareto front of {' and '.join(names)}: {counted(len(ranking.front), 'setting')} that "
        "no other setting beats in every objective."
    )
    for each in ranking.front:
        given = each.setting.hyperparameters
        setting = [each.loss, *([format_hyperparameters(given)] if given else [])]
        values = [f"{n} {v:.4f}" for n, v in zip(names, each.objectives, strict=True)]
        yield f"On the front: {' '.join(setting)} – {', '.join(values)}."


def _infeasible(ranking: Ranking) -> list[str]:
    if not ranking.rule.constraints:
        return []
    broken = Counter(limit for candidate in ranking.candidates for limit in candidate.broken)
    named = [f"{count} by {limit}" for limit, count in broken.items()]
    out = sum(not candidate.feasible for candidate in ranking.candidates)
    return [f"Infeasible: {out} of {len(ranking.candidates)} settings; {', '.join(named)}."] * (
        out > 0
    )


def _context(chosen: Candidate, objective: str) -> list[str]:
    name = MetricName.parse(objective)
    mean = chosen.mean(name.with_statistic("calibrated"))
    most = chosen.mean(name.with_statistic("calibrated_high"))
    if math.isnan(mean):
        return []
    return [
        "With this many validation samples a perfectly calibrated model with these confidences "
        f"would show {mean:.4f}, up to {most:.4f}."
    ]


def _on_the_test_split(chosen: Candidate, metric: str) -> str:
    name = MetricName(metric, "test")
    return (
        f"On the test split: {metric_heading(metric)} "
        f"{chosen.mean(name):.4f}{interval_words(chosen, name)}, after temperature scaling "
        f"{chosen.mean(replace(name, scaled=True)):.4f}, error {chosen.mean('test_error'):.4f}."
    )


def _on_evaluation_sets(chosen: Candidate) -> Iterator[str]:
    for name, shown in _evaluation_sets(chosen):
        if "AUROC" in shown:
            key = shown["AUROC"]
            found = f"Its confidence separates {name} from the test split with an AUROC of"
        else:
            key, found = shown["ECE"], f"On the shift set {name}: ECE"
        scaled = chosen.mean(f"{key}_scaled")
        line = f"{found} {chosen.mean(key):.4f}, after temperature scaling {scaled:.4f}"
        error = f", error {chosen.mean(shown['error']):.4f}" if "error" in shown else ""
        yield f"{line}{error}."


_SHIFT_ECE: Final = re.compile(
    r"shift_(.+?)(?:_(\d))?(?<!_adaptive)(?<!_classwise)(?<!_smooth)_ece$"
)


def _evaluation_sets(candidate: Candidate) -> Iterator[tuple[str, dict[str, str]]]:
    """The name of each set of ``evaluation``, and the metrics to show by heading."""
    for key in candidate.judged[0].outcome:
        if shift := _SHIFT_ECE.match(key):
            name = " of severity ".join(part for part in shift.groups() if part)
            yield name, {"ECE": key, "error": key.removesuffix("ece") + "error"}
        elif ood := re.match(r"ood_(.+)_auroc$", key):
            yield ood[1], {"AUROC": key}


@dataclass(frozen=True)
class EvaluationRow:
    """A metric on a set of ``evaluation``.

    ``numbers`` are the value for the selected setting, after temperature scaling, and both for
    cross-entropy; NaN if unknown.
    """

    set: str
    metric: str
    numbers: tuple[float, ...]


def evaluation_rows(ranking: Ranking) -> list[EvaluationRow]:
    """The selected setting and the baseline on the sets of ``evaluation``, a row per metric."""
    chosen, baseline = ranking.chosen, ranking.baseline

    def numbers(column: str) -> tuple[float, ...]:
        return tuple(
            math.nan if each is None else each.mean(f"{column}{ending}")
            for each in (chosen, baseline)
            for ending in ("", "_scaled")
        )

    return [
        EvaluationRow(name, metric, numbers(column))
        for name, shown in (_evaluation_sets(chosen) if chosen is not None else ())
        for metric, column in shown.items()
    ]


def _baseline_reason(ranking: Ranking) -> str:
    reasons = [r.reason for r in ranking.records if r.role == "baseline" and r.reason]
    return f" ({reasons[0]})" if reasons else ""


def failure_summary(records: Sequence[TrialRecord]) -> str:
    """The reasons why trials failed, with their counts, the most frequent first."""
    failed = [record for record in records if record.state == "failed"]
    return "\n".join(f"  {each}" for each in _reasons(failed))


def _reasons(ended: Sequence[TrialRecord]) -> list[str]:
    found = Counter(record.reason or "unknown" for record in ended)
    return [f"{count} × {reason}" for reason, count in found.most_common(5)]


def result_of(ranking: Ranking, plan: Plan, evidence: Evidence = NOT_YET) -> SweepResult:
    """The result of a sweep's trials, with the evidence and what ended the search."""
    found = None if _on_failed_finalists(ranking) else verdict(evidence.comparisons)
    recommended = recommend(
        ranking, evidence, with_ensemble=plan.sweep.selection.ensemble == "if_supported"
    )
    rows = (
        *leaderboard(ranking),
        *untried_rows(evidence.untried),
        *reference_rows(evidence.references, ranking.rule.objective, rare=ranking.rare_class),
        *(each.row for each in evidence.ensembles),
    )
    return SweepResult(
        sweep=plan.name,
        dataset=plan.sweep.dataset.label,
        model=plan.sweep.model_label,
        objective=ranking.rule.objective,
        selected=_selected(ranking, found),
        recommended=recommended,
        verdict=found,
        failures=tuple(on_failures(ranking.records)),
        why=(*reasons(ranking, plan.sweep.training, evidence), *evidence.ends),
        rows=tuple(
            replace(row, recommended=recommended is not None and recommended.is_row(row))
            for row in rows
        ),
        evidence=evidence,
        candidates=evidence.candidates or len(ranking.candidates),
        guard_reference=ranking.reference,
        front=front_rows(ranking),
    )


def _selected(ranking: Ranking, found: str | None) -> Best | None:
    if (chosen := ranking.chosen) is None:
        return None
    metrics = dict.fromkeys(("error", "ece", "nll", objective_metric(ranking.rule.objective)))
    return Best(
        loss=chosen.loss,
        hyperparameters=chosen.setting.hyperparameters,
        val={n: chosen.mean(MetricName(n, "val")) for n in metrics},
        test={n: chosen.mean(MetricName(n, "test")) for n in metrics},
        temperature=chosen.mean("temperature"),
        verdict=found,
    )
