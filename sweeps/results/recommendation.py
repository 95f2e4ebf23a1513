"""The one recommendation of a sweep: the classifier to deploy, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sweeps.messages.formatting import (
    counted,
    format_hyperparameters,
    format_loss,
    format_temperature,
    metric_heading,
    objective_heading,
    scaling_words,
)
from sweeps.results.columns import LeaderboardRow
from sweeps.results.evidence import EnsembleEvidence, Evidence
from sweeps.results.scaling import scaling_of
from sweeps.results.verdicts import Comparison, deciding
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.setting import BASELINE_LOSS

Kind = Literal["setting", "baseline", "ensemble"]

STAR = "★ "
"""Marks what is recommended."""


@dataclass(frozen=True)
class Recommendation:
    """What to deploy: one trained network with its scaling, or the mean of several.

    Attributes:
        kind: ``setting`` (the selected one), ``baseline`` (cross-entropy) or ``ensemble``.
        trials: Numbers of the trials whose networks it consists of, ascending.
        loss: Its loss; ``ensemble`` for networks of several settings.
        temperature: Its temperature; None if its scaling is another.
        name: Such as ``cross-entropy with a temperature``.
        why: The reason, one sentence.
        several: What the mean of several networks would give and cost, one sentence, if known.
        better_reference: What to say first if a reference model is shown to be better.
    """

    kind: Kind
    trials: tuple[int, ...]
    loss: str
    hyperparameters: Mapping[str, Any]
    temperature: float | None = field(compare=False)
    name: str = field(compare=False)
    why: str = field(compare=False)
    several: str = field(default="", compare=False)
    better_reference: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The recommendation and its reason."""
        return f"{self.advice} {self.reason}"

    @property
    def advice(self) -> str:
        """The recommendation, one sentence."""
        numbers = ", ".join(map(str, self.trials))
        where = f"trial{'s' * (len(self.trials) > 1)} {numbers}"
        if self.temperature is not None:
            where += f", T = {format_temperature(self.temperature)}"
        better = self.better_reference
        start = f"{better} Of the networks" if better else "Recommended"
        return f"{start}: {self.name} ({where})."

    @property
    def reason(self) -> str:
        """Why, a sentence or two."""
        return f"{self.why} {self.several}".rstrip()

    def is_row(self, row: LeaderboardRow) -> bool:
        """Whether a row of the leaderboard shows what it recommends."""
        if self.kind != "ensemble":
            return bool(row.trials) and row.loss == self.loss
        return row.kind == ("seeds" if self.loss == BASELINE_LOSS else "ensemble")


def recommend(
    ranking: Ranking, evidence: Evidence, *, with_ensemble: bool = False
) -> Recommendation | None:
    """The recommendation from the evidence so far; None while no setting is selected.

    It is cross-entropy with its scaling, unless the selected setting is shown to be better.
    `with_ensemble` allows several networks: the ensemble if it is shown to beat equally many seeds
    of cross-entropy, and the mean of these seeds instead of one of them (on 13 of 13 datasets
    better, ``python -m benchmarks.handed_out``).
    """
    found = _one_network(ranking, evidence)
    if found is None:
        return None
    several = evidence.offered if with_ensemble else None
    if several is not None and (not several.of_baseline or found.kind == "baseline"):
        one = scaling_of(evidence.scalings, found.trials[0])
        gain = "" if one is None else _gain(several.nll, one.nll)
        found = replace(_of_several(several), several=gain)
    return replace(found, better_reference=evidence.better_reference)


def shown_network(ranking: Ranking, recommended: Recommendation | None) -> TrialRecord | None:
    """The one network to look at: the recommended one; of several, the selected setting's.

    None while no setting is selected.
    """
    if recommended is not None and recommended.kind != "ensemble":
        return next(r for r in ranking.records if (r.number,) == recommended.trials)
    return None if ranking.chosen is None else ranking.chosen.judged[0]


def words_of(candidate: Candidate) -> str:
    """A setting in a sentence, such as ``dual-focal (γ=5)``."""
    given = candidate.setting.hyperparameters
    name = _words(candidate.loss)
    return f"{name} ({format_hyperparameters(given)})" if given else name


def _one_network(ranking: Ranking, evidence: Evidence) -> Recommendation | None:
    chosen, baseline = ranking.chosen, ranking.baseline
    if chosen is None:
        return None
    if baseline is None:
        return _of(
            chosen,
            "setting",
            evidence,
            "It is the selected setting, not compared with cross-entropy, which did not finish.",
        )
    if not baseline.feasible:
        limit = baseline.broken[0].too_far
        return _of(
            chosen,
            "setting",
            evidence,
            f"It is the selected setting; cross-entropy is no option: {limit}.",
        )
    if chosen == baseline:
        heading = objective_heading(ranking.rule.objective)
        lowest = min(ranking.candidates, key=lambda each: each.objectives[0])
        within = "" if lowest.feasible else " of the settings within the limits"
        return _of(
            baseline, "baseline", evidence, f"It also has the lowest validation {heading}{within}."
        )
    found = deciding(evidence.comparisons)
    if found is not None and found.verdict == "supported":
        return _of(
            chosen, "setting", evidence, f"It is shown to beat {_rival(found)}, {_by(found)}."
        )
    return _of(baseline, "baseline", evidence, _not_beaten(chosen, found))


def _not_beaten(chosen: Candidate, found: Comparison | None) -> str:
    selected = f"The selected setting, {words_of(chosen)},"
    if found is None:
        return f"{selected} has not been compared with it on the same samples."
    how = "is not shown to beat it" if found.verdict == "not supported" else "is worse"
    return f"{selected} {how}, {_by(found)}."


def _of_several(networks: EnsembleEvidence) -> Recommendation:
    """The mean of seeds of cross-entropy, or the ensemble of networks of all settings."""
    words, temperature = _scaled(networks)
    cost = counted(networks.networks, "network")
    if networks.of_baseline:
        loss, seeds = BASELINE_LOSS, counted(networks.networks, "seed")
        name = f"the mean of {seeds} of cross-entropy"
        why = "Neither the selected setting nor an ensemble of all settings is shown to be better"
    else:
        loss, name = "ensemble", f"the ensemble of {cost}"
        by = _by(networks.comparisons[0])
        why = f"It is shown to beat equally many seeds of cross-entropy, {by}"
    return Recommendation(
        "ensemble",
        networks.trials,
        loss,
        {},
        temperature,
        f"{name} with {words}",
        f"{why}, and a prediction costs {cost}.",
    )


def _several_would(seeds: EnsembleEvidence | None, nll: float | None) -> str:
    """What the mean of all seeds of cross-entropy gives instead of one network, and its cost."""
    if seeds is None or math.isnan(seeds.nll) or nll is None:
        return ""
    return (
        f"The mean of {counted(seeds.networks, 'seed')} of cross-entropy has a test NLL of "
        f"{seeds.nll:.4f}, this network {nll:.4f}; a prediction then costs "
        f"{counted(seeds.networks, 'network')} (selection.ensemble, `calsweep export NAME "
        "--ensemble`)."
    )


def _gain(nll: float, of_one: float) -> str:
    """What several networks give instead of one, whose trainings a sweep has anyway."""
    return (
        f"The test NLL is {nll:.4f}, that of one network {of_one:.4f} "
        "(selection.ensemble: never recommends one)."
    )


def _scaled(ensemble: EnsembleEvidence) -> tuple[str, float | None]:
    """How the mean of networks is scaled, and its temperature if that is all."""
    scaling = ensemble.scaling  # older results have none
    if scaling is None or scaling["name"] == "temperature":
        return "a temperature", ensemble.temperature
    return scaling_words(scaling), None


def _of(candidate: Candidate, kind: Kind, evidence: Evidence, why: str) -> Recommendation:
    trial = candidate.judged[0]
    scaling = scaling_of(evidence.scalings, trial.number)
    words, gain = "a temperature", ""
    temperature: float | None = trial.outcome.get("temperature", math.nan)
    if scaling is not None and not scaling.is_temperature:
        words, gain, temperature = scaling.words, f" {scaling.gain}", None
    return Recommendation(
        kind,
        (trial.number,),
        candidate.loss,
        candidate.setting.hyperparameters,
        temperature,
        f"{words_of(candidate)} with {words}",
        f"{why}{gain}",
        _several_would(evidence.seeds, None if scaling is None else scaling.nll),
    )


def _rival(found: Comparison) -> str:
    return _words(found.theirs.setting) + " with its scaling" * found.theirs.scaled


def _by(found: Comparison) -> str:
    return f"by {metric_heading(found.metric)} on the {found.split} split ({found.difference})"


def _words(loss: str) -> str:
    return format_loss(loss).replace("_", "-")
