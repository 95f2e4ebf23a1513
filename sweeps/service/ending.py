"""How a sweep ends: reference models, verdicts on the selected setting, why the search ended."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ruamel.yaml import YAML

from sweeps.errors import first_line
from sweeps.evidence.comparison import compare, compare_losses, compare_on_test_split, look
from sweeps.evidence.copies import judge_copies
from sweeps.evidence.ensemble import judge_ensemble
from sweeps.evidence.learning import learning_warnings
from sweeps.evidence.prediction_sets import judge_sets
from sweeps.evidence.scaling import judge_scalings
from sweeps.messages.formatting import (
    calsweep_command,
    counted,
    format_loss,
    format_value,
    resume_command,
)
from sweeps.messages.redaction import redact
from sweeps.messages.reporter import Reporter, logger
from sweeps.results.best import as_sweep_file
from sweeps.results.evidence import Evidence
from sweeps.results.explanation import result_of
from sweeps.results.recommendation import recommend, shown_network
from sweeps.results.reference import ReferenceResult
from sweeps.results.result import Ending, SweepResult
from sweeps.search.finalist_plan import Look
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.trial_queue import TrialQueue
from sweeps.search.untried import Untried
from sweeps.service.confident import judge_confident
from sweeps.service.event import judge_shares
from sweeps.service.reading.stored import StoredSweep, class_and_label_names, sweeps_on_test_split
from sweeps.service.references import compare_reference, fit_references, reference_scalings
from sweeps.store.code import code_warnings
from sweeps.store.first_files import read_earlier_candidates
from sweeps.store.identity import read_identity
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import FIRST_LINE, to_yaml
from sweeps.tracking.run_content import BEST, REPORT
from trainables.contract.setting import Setting
from trainables.data.core.tasks import OneClass

if TYPE_CHECKING:
    from trainables.data.core.base import Data

P = ParamSpec("P")
T = TypeVar("T")


def end_of(queue: TrialQueue, store: SweepStore, dataset: Data, reporter: Reporter) -> Ending:
    """Fit the reference models, judge the selected setting, and say why the search ended."""
    references = fit_references(queue.plan, store, dataset, reporter)
    reporter.stage("Comparing the selected setting with cross-entropy")
    ranking = Ranking(queue.records, queue.plan.rule)
    evidence = _weigh(ranking, store, queue.plan, references)
    on_copies, copied = _on_copies(ranking, evidence, store, dataset)
    more = (
        *copied,
        *store.patiently(code_warnings, store.folder, queue.records),
    )
    untried = tuple(queue.suggestions.untried)
    several = queue.plan.sweep.selection.ensemble == "if_supported"
    recommended = recommend(ranking, evidence, with_ensemble=several)
    network = ranking, store.rows_patiently, recommended
    confident = _as_far_as_readable(judge_confident, *network)
    shares = _as_far_as_readable(judge_shares, *network, _classes(dataset))
    evidence = replace(
        evidence,
        references=references,
        warnings=(*evidence.warnings, *more),
        on_data=(*_on_data(dataset), *on_copies),
        event=shares[0] if len(shares) == 1 else None,
        classes=tuple(shares) if len(shares) > 1 else (),
        confident=next(iter(confident), None),
        ends=tuple(
            said
            for said in (
                _on_budget(queue, store.storage),
                _on_untried(untried, queue.plan.name, store.storage),
                _on_further_seeds(queue, ranking),
            )
            if said
        ),
        untried=untried,
    )
    sweep = StoredSweep(store, queue.plan, ranking)
    scalings = _as_far_as_readable(reference_scalings, sweep, references)
    evidence = replace(evidence, scalings=(*evidence.scalings, *scalings))
    compared = _as_far_as_readable(compare_reference, sweep, evidence, recommended)
    evidence = replace(evidence, against_reference=next(iter(compared), None))
    return ending_with(sweep, result_of(ranking, queue.plan, evidence))


def ending_with(sweep: StoredSweep, found: SweepResult | None = None) -> Ending:
    """The end of a sweep with a result, by default the stored one."""
    found = found or sweep.result
    return Ending(sweep.ranking, found, partial(_result_files, sweep, found))


def _result_files(sweep: StoredSweep, found: SweepResult) -> dict[str, str]:
    """Names and contents of the artifacts of a finished sweep's own run.

    Figures that cannot be drawn, for example because predictions are damaged, are omitted.
    """
    from sweeps.pages import figures
    from sweeps.pages.svg import svg

    ranking, folder = sweep.ranking, sweep.store.folder
    drawings: dict[str, Callable[[], str]] = {
        "figures/error_against_objective.svg": lambda: svg(
            figures.error_against_objective(ranking)
        ),
        "figures/curves.svg": lambda: svg(figures.curves(ranking.records, sweep.plan)),
        "figures/event.svg": lambda: _event_diagram(sweep, found),
        REPORT: lambda: sweep.report(found.evidence),
    }
    files = {}
    if found.selected is not None:
        resolved = YAML(typ="safe", pure=True).load(folder.read("sweep.yaml").decode())
        identity = read_identity(folder)
        data = None if identity is None else identity.digest
        setting = Setting(found.selected.loss, found.selected.hyperparameters)
        file = as_sweep_file(setting, resolved, found.candidates, data)
        files[BEST] = FIRST_LINE + redact(to_yaml(file))
    for name, draw in drawings.items():
        try:
            files[name] = draw()
        except Exception as error:  # trials' files may contain anything
            logger.warning("%s is not in MLflow: %s", name, first_line(error))
    return {name: text for name, text in files.items() if text}


def _event_diagram(sweep: StoredSweep, found: SweepResult) -> str:
    """Of the recommended network on the test split; empty with other than two classes."""
    from sweeps.evidence.scaling import scaled_rows
    from sweeps.pages.event_diagram import event_of_rows

    network = shown_network(sweep.ranking, found.recommended)
    classes, _ = class_and_label_names(sweep.store)
    if network is None or len(classes) != 2:
        return ""
    rows = scaled_rows(sweep.store.rows, network, sweep.plan.rule.scaling)
    return event_of_rows(rows, classes)


def _classes(dataset: Data) -> tuple[str, ...]:
    """The names of the classes; empty for data of the user's own code."""
    from trainables.data.core.base import Dataset

    return dataset.classes if isinstance(dataset, Dataset) else ()


def _on_data(dataset: Data) -> tuple[str, ...]:
    """The task, unless each sample has one class, and what was noticed when the data were read."""
    usual = isinstance(dataset.task, OneClass)
    noticed = (f"Data: {remark.removesuffix('.')}." for remark in dataset.remarks)
    return (*([] if usual else [f"The data have {dataset.task}."]), *noticed)


def _on_copies(
    ranking: Ranking, evidence: Evidence, store: SweepStore, dataset: Data
) -> tuple[list[str], list[str]]:
    """What is said of test samples that equal training samples, and warned of; one at most."""
    from trainables.data.core.base import Dataset

    network = shown_network(ranking, recommend(ranking, evidence))
    if network is None or not isinstance(dataset, Dataset) or dataset.copies is None:
        return [], []
    try:
        rows = store.rows_patiently("test", network.number)
    except (OSError, ValueError) as error:
        logger.error("copies of training samples cannot be judged: %s", error)
        return [], []
    if (found := judge_copies(rows, dataset.copies["test"])) is None:
        return [], []
    text = found.text(format_loss(network.loss))
    return ([], [text]) if found.mislead else ([text], [])


def _on_budget(queue: TrialQueue, storage: str) -> str | None:
    """A message about the budget that ended the search or the sweep; empty if there was none."""
    spent = queue.budget.used_up if queue.cut_short else None
    key = spent or queue.ended_by
    if key is None:
        return None
    searched = counted(sum(record.searched for record in queue.records), "setting")
    if key == "sampler":
        return (
            f"The search ended after {searched}: no other setting was expected to lower "
            f"{queue.plan.search.objective} by more than {queue.suggestions.least_gain:.4f}, half "
            "of its standard error."
        )
    budget = f"search.{key} = {format_value(getattr(queue.plan.search, key))}"
    if spent is None:
        return f"The search ended by {budget}, after {searched}."
    ended = sum(record.state != "running" for record in queue.records)
    more = resume_command(f"{queue.plan.name} --set search.{key}=MORE", storage)
    return f"{budget} is spent: {ended} of {queue.planned} trials have ended. {more} continues it."


def _on_untried(untried: Sequence[Untried], name: str, storage: str) -> str | None:
    """The losses that were not tried, and the command that tries them; None if there are none."""
    if not (losses := [each.setting.loss for each in untried]):
        return None
    named = ", ".join(losses)
    other = calsweep_command(
        f"run FILE --name {name}-more --set {shlex.quote(f'losses=[{named}]')}", storage
    )
    return (
        f"Not tried: {', '.join(map(format_loss, losses))}. {other}, with the sweep file of "
        f"{name}, tries them."
    )


def _on_further_seeds(queue: TrialQueue, ranking: Ranking) -> str | None:
    """Why ``selection.seeds: auto`` ended where it did; None without it or before its end."""
    selection, chosen = queue.plan.sweep.selection, ranking.chosen
    if selection.seeds != "auto" or chosen is None or not chosen.seeds or queue.cut_short:
        return None
    ended_by = queue.finals.ended_by
    reason = {
        None: "the most there are",
        "decided": "the verdicts on the validation split are decided",
        "hopeless": "more were unlikely to give a supported verdict on the validation split",
    }.get(ended_by, f"search.{ended_by} leaves no room for more")
    count = f"{counted(chosen.seeds, 'fresh seed')} of at most {selection.most_seeds}"
    return f"selection.seeds = auto ended after {count}: {reason}."


def take_look(plan: Plan, store: SweepStore, ranking: Ranking) -> Look:
    """Whether further seeds of the selected setting and the baseline may change a verdict."""
    earlier = store.patiently(read_earlier_candidates, store.folder)
    looks = plan.sweep.selection.looks
    return look(_as_far_as_readable(compare, ranking, store.rows_patiently, earlier, looks))


def _weigh(
    ranking: Ranking,
    store: SweepStore,
    plan: Plan,
    references: tuple[ReferenceResult, ...],
) -> Evidence:
    read, selection = store.rows_patiently, plan.sweep.selection
    sweeps = store.patiently(sweeps_on_test_split, store)
    earlier = store.patiently(read_earlier_candidates, store.folder)
    pairs = _as_far_as_readable(compare_losses, ranking, read, sweeps) if selection.per_loss else []
    return Evidence(
        (
            *_as_far_as_readable(compare_on_test_split, ranking, read, sweeps),
            *_as_far_as_readable(compare, ranking, read, earlier, selection.looks),
        ),
        tuple(_as_far_as_readable(learning_warnings, ranking, read, plan, references)),
        len(ranking.candidates) + earlier,
        pairs=tuple(pairs),
        ensemble=next(
            iter(_as_far_as_readable(judge_ensemble, ranking, read, sweeps, plan.sweep.name)), None
        ),
        sets=tuple(_as_far_as_readable(judge_sets, ranking, read)),
        scalings=tuple(_as_far_as_readable(judge_scalings, ranking, read)),
    )


def _as_far_as_readable(
    judge: Callable[P, list[T]], *arguments: P.args, **more: P.kwargs
) -> list[T]:
    """A function's result on predictions; empty if they are missing or damaged."""
    try:
        return judge(*arguments, **more)
    except (OSError, ValueError) as error:  # pyarrow raises ValueErrors
        logger.error("the selected setting cannot be judged: %s", error)
        return []
