"""Small sweeps and trial records that many tests use."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from sweeps.messages.reporter import Reporter
from sweeps.results.verdicts import Arm, Comparison, Split, Verdict
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import State, TrialRecord
from sweeps.search.rules import rule_of
from sweeps.search.trial_queue import Past, TrialQueue
from sweeps.store.earlier_sweeps import read_known
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from sweeps.terminal.console import plain_console
from trainables.contract.config import USUAL_SCALING
from trainables.contract.messages import COSTS, Role
from trainables.contract.setting import Setting
from trainables.export.description import Exported
from trainables.files.rows import Rows
from trainables.files.storage import Folder
from trainables.trials.scaling import fit_network_scaling


def make_sweep(name: str = "small", **sections: Any) -> SweepFile:
    """A sweep of focal and mbls on digits with small_cnn, without reference models.

    It tries the published settings first, unless `sections` say otherwise.
    """
    return parse_sweep(
        {
            "name": name,
            "dataset": "digits",
            "model": "small_cnn",
            "losses": ["focal", "mbls"],
            "reference": "none",
            **sections,
            "search": {"sampler": "tpe", **sections.get("search", {})},
        }
    )


def new_store(
    folder: Path,
    sweep: SweepFile,
    records: Sequence[TrialRecord] = (),
    files: Mapping[str, bytes] | None = None,
) -> SweepStore:
    """A new sweep in the storage ``folder``, with these trials."""
    store = SweepStore(str(folder), sweep.name)
    store.create(sweep, files=files)
    for record in records:
        store.save(record)
    return store


def queue_of(sweep: SweepFile, store: SweepStore, **more: Any) -> TrialQueue:
    """The trial queue of a new or resumed sweep with ten classes."""
    known = read_known(store.folder)
    past = Past(store.load_records(), known, more.pop("trained_encoders", ()))
    listeners = more.pop("listeners", ())
    queue = TrialQueue(Plan(sweep), store.save, 10, past, **more)
    queue.listeners += listeners
    return queue


def ranked(records: Sequence[TrialRecord], **sections: Any) -> Ranking:
    """The ranking of a small sweep's trials."""
    return Ranking(records, rule_of(make_sweep(**sections)))


def trial(
    number: int,
    loss: str = "focal",
    hyperparameters: dict[str, Any] | None = None,
    *,
    role: Role = "search",
    seed: int = 0,
    state: State = "finished",
    reason: str | None = None,
    ended: float | None = None,
    history: list[dict[str, float]] | None = None,
    epochs: int = 1,
    **metrics: float,
) -> TrialRecord:
    """A trial that has ended, with a unique setting.

    Args:
        number: Number of the trial.
        loss: Name of the loss.
        hyperparameters: None for a gamma that no other number has.
        role: See :class:`TrialRecord`.
        seed: Seed of the training.
        state: How it ended.
        reason: Why it failed or was stopped.
        ended: When.
        history: All that it reported; None for one entry.
        epochs: The epoch of that entry.
        metrics: Metrics of that entry that replace the usual ones.
    """
    entry = {
        "epoch": epochs,
        "timestamp": 1e9 + epochs,
        **{f"{split}_{name}": 0.1 for split in ("val", "test") for name in ("error", "ece", "nll")},
        "val_ece_low": 0.01,
        "val_ece_high": 0.2,
        "test_ece_low": 0.0,
        "test_ece_high": 0.1,
        "test_ece_scaled": 0.05,
        "temperature": 1.5,
        **metrics,
    }
    return TrialRecord(
        number=number,
        role=role,
        setting=Setting(
            loss, {"gamma": float(number)} if hyperparameters is None else hyperparameters
        ),
        seed=seed,
        started=1e9,
        state=state,
        reason=reason,
        ended=ended,
        history=[entry] if history is None else history,
    )


def baseline(number: int = 0, **values: Any) -> TrialRecord:
    """The trial of cross-entropy."""
    return trial(number, "cross_entropy", {}, **{"role": "baseline", **values})


def finalist(number: int, of: TrialRecord, seed: int, **values: Any) -> TrialRecord:
    """The setting of a trial with a fresh seed."""
    return trial(number, of.loss, of.hyperparameters, role="finalist", seed=seed, **values)


def facts(record: TrialRecord) -> tuple[object, ...]:
    """Everything in a record except times: independent of interruptions and of the machine."""
    history = [{k: v for k, v in e.items() if k not in COSTS} for e in record.history]
    return record.number, record.role, record.setting, record.seed, record.state, history


def is_kept(before: TrialRecord, after: TrialRecord) -> bool:
    """Whether a finished trial was not run again: it may have got further metrics."""
    epochs = zip(before.history, after.history, strict=True)
    return replace(after, history=before.history) == before and all(
        old.items() <= new.items() for old, new in epochs
    )


def shown(*renderables: Any, width: int = 100) -> str:
    """The output on a terminal of this width."""
    text = io.StringIO()
    plain_console(width=width, file=text).print(*renderables, sep="\n")
    return text.getvalue()


class Noted(Reporter):
    """Records what is shown."""

    def __init__(self, said: list[str]) -> None:
        self.stage = self.notice = self.fault = self.left = said.append


def write_predictions(
    folder: Folder, split: str, predictions: tuple[Tensor, Tensor], decisions: int = 1
) -> None:
    """Writes logits and labels as the predictions of a trial on a split."""
    logits, labels = predictions
    Rows(logits.float().numpy(), labels.numpy(), decisions).write(folder, split)


def handed_out(store: SweepStore, number: int) -> Tensor:
    """Probabilities (N, K) of a trial on the test split, by the scaling of its validation split."""
    record = store.load_records()[number]
    known, test = (Rows.read(store.trial_folder(number), each) for each in ("validation", "test"))
    scaling, _ = fit_network_scaling(known, record.setting, USUAL_SCALING)
    return scaling(test.tensors()[0]).softmax(1)


SCALED = " + scaling"


def compared(
    ours: str,
    theirs: str,
    metric: str,
    value: float,
    low: float,
    high: float,
    verdict: Verdict,
    seeds: int = 1,
    split: Split = "validation",
    corrected_for: int | None = None,
    groups: int | None = None,
) -> Comparison:
    """A comparison of two sides, such as ``focal`` and ``cross_entropy + scaling``."""
    return Comparison(
        ours=Arm.parse(ours),
        theirs=Arm.parse(theirs),
        metric=metric,
        value=value,
        low=low,
        high=high,
        verdict=verdict,
        seeds=seeds,
        split=split,
        corrected_for=corrected_for,
        groups=groups,
    )


def exported(**values: Any) -> Exported:
    """The description of an exported classifier of two classes."""
    return Exported(
        **{
            **dict.fromkeys(("label", "sweep", "dataset", "digest", "model"), "x"),
            **dict.fromkeys(("calsweep", "why", "loss"), "x"),
            "text_column": None,
            "classes": ("a", "b"),
            "several": False,
            "outputs": (2,),
            "dtype": "float32",
            "shape": (2,),
            "samples": {},
            "raw": "rows",
            "recommended": True,
            "hyperparameters": {},
            "temperature": 1.0,
            "verdict": None,
            "scaling": {},
            "prediction_sets": {},
            **values,
        }
    )
