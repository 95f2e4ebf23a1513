"""What suggests settings: the sweep file's ``search.sampler``.

To add one, write a function of a seed that makes an Optuna sampler and name it in
:data:`SAMPLERS`. A sampler is made anew for each suggestion, so it must learn from the study.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, RandomSampler, TPESampler


def tpe(seed: int) -> BaseSampler:
    """Tree-structured Parzen estimator, over all hyperparameters of a loss together."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Argument ``group``", ExperimentalWarning)
        return TPESampler(seed=seed, multivariate=True, group=True)


def random(seed: int) -> BaseSampler:
    """Independent draws, over ranges with ``log: true`` of the logarithm."""
    return RandomSampler(seed=seed)


SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {"tpe": tpe, "random": random}
