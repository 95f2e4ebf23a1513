"""Search policies that were tried and not adopted.

    python -m research.policies benchmarks/tabular/digits.yaml [--only early_stopping samplers]

replays them like `benchmarks.tabular.regret`, beside the policies that this compares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from optuna.samplers import BaseSampler

from benchmarks.tabular.policies import (
    POLICIES,
    Calsweep,
    published_first,
    stop,
    suggest,
    tpe,
    trials,
)
from benchmarks.tabular.regret import main
from research.pausing import replay_pausing
from research.samplers import Bandit, LossFirst, better_half, thompson
from research.stoppers import Extrapolation, HyperBand, MedianStopping, NoFinalist
from sweeps.search.samplers import SAMPLERS
from sweeps.search.stopping import STOPPERS

_FEW = 2  # minimum number of trials of a loss for a model


def _loss_first(
    bandit: Bandit, within: Callable[[int], BaseSampler]
) -> Callable[[int], BaseSampler]:
    return partial(LossFirst, bandit=bandit, within=within)


def _pause(**options: Any) -> Calsweep:
    return published_first(replays=partial(replay_pausing, **options))


STOPPED = {
    "median stopping": stop(name="median"),
    "HyperBand": stop(name="hyperband"),
    "extrapolated NLL": stop(name="extrapolation"),
    "extrapolated guard and rank": stop(name="no_finalist"),
    "pausing and promoting": _pause(),
    "pausing and promoting, synchronous": _pause(synchronous=True),
    "pausing and promoting, across losses": _pause(across=True),
    "pausing and promoting, 100 trials": replace(trials(100), replays=replay_pausing),
}
SAMPLED = {
    "loss by Thompson sampling, then random": suggest("thompson_random"),
    "loss by Thompson sampling, then TPE": suggest("thompson_tpe"),
    "better half of the losses, random": suggest("half_random"),
    "better half of the losses, TPE": suggest("half_tpe"),
    "better half of the losses, TPE, a fifth published": suggest("half_tpe", published=0.2),
}


def register() -> None:
    """Add the policies, and the stoppers and samplers that they name."""
    STOPPERS.update(
        {
            "median": MedianStopping,
            "hyperband": HyperBand,
            "extrapolation": Extrapolation,
            "no_finalist": NoFinalist,
        }
    )
    SAMPLERS.update(
        {
            "thompson_random": _loss_first(thompson, SAMPLERS["random"]),
            "thompson_tpe": _loss_first(thompson, partial(tpe, n_startup_trials=_FEW)),
            "half_random": _loss_first(better_half, SAMPLERS["random"]),
            "half_tpe": _loss_first(better_half, partial(tpe, n_startup_trials=_FEW)),
        }
    )
    POLICIES["early_stopping"].update(STOPPED)
    POLICIES["samplers"].update(SAMPLED)
    if find_spec("syne_tune") is not None:
        # Its BOHB would make the same suggestions: with 16 hyperparameters, its densities need 107
        # trials.
        from research.syne_tune_schedulers import SyneTuneASHA

        for metric, words in (("val_ece", "ECE"), ("val_nll", "NLL")):
            POLICIES["tools"][f"Syne Tune's ASHA on {words}"] = SyneTuneASHA(metric)


if __name__ == "__main__":
    register()
    main()
