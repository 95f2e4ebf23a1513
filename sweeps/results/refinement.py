"""The two parts of the NLL: calibration, which a temperature removes, and refinement, the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.search.ranking import Ranking
from trainables.contract.metric_names import MetricName, SplitName
from trainables.contract.setting import Setting

_SPLITS: tuple[SplitName, ...] = ("val", "test")


def parts_of_nll(outcome: Mapping[str, float]) -> dict[str, float]:
    """``val_nll_calibration``, ``val_refinement`` and the same for ``test``, if known.

    NLL = calibration + refinement (Berta et al. 2025). Refinement is the NLL after a temperature,
    which is cross-fitted on the validation split.
    """
    found = {}
    for split in _SPLITS:
        plain = outcome.get(str(MetricName("nll", split)), math.nan)
        refinement = outcome.get(str(MetricName("nll", split, scaled=True)), math.nan)
        if not math.isnan(plain + refinement):
            found[f"{split}_nll_calibration"] = plain - refinement
            found[f"{split}_refinement"] = refinement
    return found


@dataclass(frozen=True)
class RefinementRow:
    """The parts of the NLL of a setting, means over its judged seeds.

    Attributes:
        parts: See :func:`parts_of_nll`.
        interval: Of the calibration part on the test split; NaN if unknown.
    """

    setting: Setting
    parts: Mapping[str, float]
    interval: tuple[float, float]


def refinement_rows(ranking: Ranking) -> list[RefinementRow]:
    """The parts of the NLL of the best setting of each loss."""
    names = [f"{split}_{metric}" for split in _SPLITS for metric in ("nll", "nll_scaled")]
    return [
        RefinementRow(
            each.setting,
            parts_of_nll({name: each.mean(name) for name in names}),
            each.interval(MetricName("nll_calibration", "test")),
        )
        for each in ranking.best_by_loss.values()
    ]
