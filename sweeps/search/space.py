"""The search space of a sweep: one branch per loss, each with its own hyperparameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from optuna import Trial
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from search_spaces import Distribution, available_search_spaces, published_settings, search_space
from sweeps.sweep_file.sections.losses import LossSection, SpaceSection
from trainables.contract.setting import BASELINE, Setting

Branch = dict[str, Distribution]


class SearchSpace:
    """The search space of a sweep file's losses.

    Attributes:
        branches: Loss → hyperparameter → distribution; empty for a loss whose values are all fixed.
        fixed: Loss → fixed values of its hyperparameters.

    Raises:
        ValueError: A range of an integer hyperparameter has a bound that is none.
    """

    def __init__(self, losses: Iterable[LossSection]) -> None:
        losses = list(losses)
        self.branches = {section.name: loss_space(section) for section in losses}
        self.fixed = {section.name: dict(section.hyperparameters) for section in losses}

    @property
    def searched_losses(self) -> list[str]:
        return [loss for loss, branch in self.branches.items() if branch]

    def initial_settings(self, num_classes: int) -> list[Setting]:
        """The first trials: the cross-entropy baseline, then every published setting.

        The losses take turns, each in the order of its papers, so that a small budget covers all of
        them. Published settings outside the user's ranges or fixed values are omitted; some depend
        on the number of classes. A loss without any contributes the middle of its ranges.
        """
        queues = [self._published(loss, num_classes) for loss in self.branches]
        rounds = range(max(map(len, queues)))
        turns = [queue[turn] for turn in rounds for queue in queues if turn < len(queue)]
        return list(dict.fromkeys([BASELINE, *turns]))

    def suggest(self, trial: Trial) -> Setting:
        """One setting, drawn by an Optuna trial, with the hyperparameters of its loss."""
        loss = trial.suggest_categorical("loss", self.searched_losses)
        branch = self.branches[loss]
        values = {name: _suggest(trial, f"{loss}.{name}", d) for name, d in branch.items()}
        return Setting(loss, values | self.fixed[loss])

    def contains(self, setting: Setting) -> bool:
        """Whether the search space contains a setting, apart from its fixed values."""
        branch, values = self.branches.get(setting.loss, {}), setting.hyperparameters
        return bool(branch) and all(
            name in values and _contains(distribution, values[name])
            for name, distribution in branch.items()
        )

    def optuna_parameters(self, setting: Setting) -> dict[str, object] | None:
        """A setting as Optuna's parameters; None if it is outside the space, like the baseline."""
        if not self.contains(setting):
            return None
        loss, values = setting.loss, setting.hyperparameters
        return {"loss": loss, **{f"{loss}.{name}": values[name] for name in self.branches[loss]}}

    @property
    def sizes(self) -> dict[str, float]:
        """The number of settings of each searched loss; inf if a range is continuous."""
        branches = self.branches.items()
        return {loss: math.prod(map(_size, branch.values())) for loss, branch in branches if branch}

    def all_settings(self, loss: str) -> Iterator[Setting]:
        branch = self.branches[loss]
        for values in itertools.product(*map(_values, branch.values())):
            yield Setting(loss, dict(zip(branch, values, strict=True)) | self.fixed[loss])

    def most_trials(self, wanted: int, initial: Iterable[Setting]) -> int:
        """The wanted number of trials, limited because no setting is trained twice."""
        apart = sum(not self.contains(setting) for setting in initial)
        return int(min(wanted, sum(self.sizes.values()) + apart))

    def _published(self, loss: str, num_classes: int) -> list[Setting]:
        fixed, branch = self.fixed[loss], self.branches[loss]
        known = published_settings(loss, num_classes) if _has_space(loss) else []
        settings = [Setting(loss, values | fixed) for values in known if self._admits(loss, values)]
        if not settings:
            settings = [Setting(loss, {name: _middle(d) for name, d in branch.items()} | fixed)]
        return list(dict.fromkeys(settings))

    def _admits(self, loss: str, published: dict[str, object]) -> bool:
        inside = not self.branches[loss] or self.contains(Setting(loss, published))
        fixed = self.fixed[loss].items()
        return inside and all(published.get(name, value) == value for name, value in fixed)


def loss_space(section: LossSection) -> Branch:
    """The space of one loss: its default space with the user's ranges and without fixed values.

    A custom loss without a default space has only the ranges of the sweep file. Errors are those of
    :class:`SearchSpace`.
    """
    space = search_space(section.name) if _has_space(section.name) else {}
    for name, given in section.space.items():
        space[name] = _distribution(section.name, name, given, space.get(name))
    return {name: d for name, d in space.items() if name not in section.hyperparameters}


def _has_space(loss: str) -> bool:
    return loss in available_search_spaces()


def _distribution(
    loss: str, name: str, given: SpaceSection, default: Distribution | None
) -> Distribution:
    if given.choices is not None:
        return CategoricalDistribution(given.choices)
    assert given.low is not None and given.high is not None
    if isinstance(default, IntDistribution) or (default is None and _is_integer(loss, name)):
        for bound in (given.low, given.high):
            if not bound.is_integer():
                raise ValueError(
                    f"{name} is an integer, its range goes from {given.low:g} to {given.high:g}; "
                    "allowed: whole numbers for low and high"
                )
        return IntDistribution(int(given.low), int(given.high), log=given.log)
    return FloatDistribution(given.low, given.high, log=given.log)


def _is_integer(loss: str, name: str) -> bool:
    """Whether the loss's constructor takes this hyperparameter as an integer."""
    from trainables.losses.registry import integer_hyperparameters

    try:
        return name in integer_hyperparameters(loss)
    except ValueError:
        # It cannot be imported, for example by `calsweep sync` in another folder. Training and
        # checks have reported this already; other callers only need the names of the
        # hyperparameters.
        return False


def _suggest(trial: Trial, name: str, distribution: Distribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    whole = isinstance(distribution, IntDistribution)
    suggest: Any = trial.suggest_int if whole else trial.suggest_float
    return suggest(name, distribution.low, distribution.high, log=distribution.log)


def _middle(distribution: Distribution) -> Any:
    """The middle of a range, on its scale, or the first choice."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[0]
    low, high = distribution.low, distribution.high
    middle = math.sqrt(low * high) if distribution.log else (low + high) / 2
    return round(middle) if isinstance(distribution, IntDistribution) else float(f"{middle:.6g}")


def _size(distribution: Distribution) -> float:
    if isinstance(distribution, FloatDistribution) and not distribution.single():
        return math.inf
    return len(_values(distribution))


def _values(distribution: Distribution) -> Sequence[Any]:
    if isinstance(distribution, CategoricalDistribution):
        return [c for i, c in enumerate(distribution.choices) if c not in distribution.choices[:i]]
    if isinstance(distribution, IntDistribution):
        return range(distribution.low, distribution.high + 1)
    return [distribution.low]


def _contains(distribution: Distribution, value: Any) -> bool:
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    if isinstance(value, bool | str):
        return False
    whole = isinstance(distribution, FloatDistribution) or float(value).is_integer()
    return whole and distribution.low <= value <= distribution.high
