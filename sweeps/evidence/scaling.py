"""The scaling of a trial's network, fitted once on its predictions on the validation split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from sweeps.messages.formatting import scaling_words
from sweeps.results.scaling import ScalingRow
from sweeps.results.verdicts import Split
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.config import ScalingWay
from trainables.files.rows import ReadRows, Rows

if TYPE_CHECKING:
    from torch import Tensor

    from trainables.posthoc import Scaling

AS_TRAINED: Final = "as trained"
"""The heading of a diagram before any scaling."""

_fitted: WeakKeyDictionary[Rows, dict[tuple[str, ScalingWay], Scaled]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Scaled:
    """The scaling of a network, fitted on the validation split.

    Attributes:
        crossed: Cross-fitted logits (N, K) of the validation split, float64.
    """

    scaling: Scaling
    crossed: Tensor


def scaled_network(read: ReadRows, trial: TrialRecord, way: ScalingWay) -> Scaled:
    """The scaling of a trial's network; errors are those of `read`."""
    from trainables.trials.scaling import fit_network_scaling

    rows = read("validation", trial.number)
    known = _fitted.setdefault(rows, {})
    key = (trial.label, way)
    if key not in known:
        known[key] = Scaled(*fit_network_scaling(rows, trial.setting, way))
    return known[key]


def scaled_rows(read: ReadRows, trial: TrialRecord, way: ScalingWay, split: Split = "test") -> Rows:
    """A trial's predictions after its scaling, log-probabilities; cross-fitted on validation."""
    rows, found = read(split, trial.number), scaled_network(read, trial, way)
    logits = found.crossed
    if split == "test":
        logits = found.scaling(double_tensors(rows)[0])
    return replace(rows, logits=logits.log_softmax(dim=1).float().numpy())


def reliability_views(
    read: ReadRows, trial: TrialRecord, way: ScalingWay, split: Split = "test"
) -> dict[str, Rows]:
    """A trial's predictions as trained and after its scaling, by heading of a diagram."""
    words = scaling_words(scaled_network(read, trial, way).scaling.to_json())
    return {
        AS_TRAINED: read(split, trial.number),
        words: scaled_rows(read, trial, way, split),
    }


def judge_scalings(ranking: Ranking, read: ReadRows) -> list[ScalingRow]:
    """The scaling of the finalists, the selected setting and cross-entropy, see `ScalingRow`.

    Errors are those of `read`.
    """
    chosen, baseline = ranking.chosen, ranking.baseline
    judged = [each for each in ranking.candidates if each.seeds or each in (chosen, baseline)]
    return [scaling_row(each.judged, read, ranking.rule.scaling) for each in judged]


def scaling_row(trials: Sequence[TrialRecord], read: ReadRows, way: ScalingWay) -> ScalingRow:
    """The scaling of the runs of a setting; errors are those of `read`."""
    from trainables.trials.outcome import evaluate

    def means(networks: Iterable[Rows]) -> tuple[float, float]:
        names = "nll", "ece"
        found = [evaluate(*rows.tensors(), names, rows.decisions) for rows in networks]
        nll, ece = (fmean(each[name] for each in found) for name in names)
        return nll, ece

    found = [scaled_network(read, trial, way).scaling for trial in trials]
    nll, ece = means(scaled_rows(read, trial, way) for trial in trials)
    nll_temperature, ece_temperature = means(
        read("test", trial.number).scaled(trial.outcome["temperature"]) for trial in trials
    )
    return ScalingRow(
        label=trials[0].label,
        trials=tuple(trial.number for trial in trials),
        names=tuple(each.name for each in found),
        inverse=found[0].inverse is not None,
        temperature=float(found[0].temperature),
        nll=nll,
        nll_temperature=nll_temperature,
        ece=ece,
        ece_temperature=ece_temperature,
    )


def double_tensors(rows: Rows) -> tuple[Tensor, Tensor]:
    """The logits (N, K), float64, and the labels (N,)."""
    logits, labels = rows.tensors()
    return logits.double(), labels
