"""The search space of a sweep: one branch per loss, each with its own hyperparameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from optuna import Trial
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from search_spaces import available_search_spaces, published_settings, search_space
from sweeps.search.ranking import BASELINE
from sweeps.sweep_file.schema import LossSection, SpaceSection, SweepFile

Setting = tuple[str, dict[str, Any]]


def loss_space(section: LossSection) -> dict[str, BaseDistribution]:
    """What is searched of one loss: its own space, the user's ranges over it, less fixed values.

    A loss of the user's own, or of a package that brings no space, has the user's ranges alone.

    Raises:
        ValueError: A range of an integer hyperparameter has a bound that is none.
    """
    space = search_space(section.name) if _has_space(section.name) else {}
    for name, given in section.space.items():
        space[name] = _distribution(section.name, name, given, space.get(name))
    return {name: d for name, d in space.items() if name not in section.hyperparameters}


def sweep_space(sweep: SweepFile) -> dict[str, dict[str, BaseDistribution]]:
    """Loss → hyperparameter → distribution."""
    return {section.name: loss_space(section) for section in sweep.losses}


def initial_settings(sweep: SweepFile, num_classes: int) -> list[Setting]:
    """The first trials of a sweep: the cross-entropy baseline, then every published setting.

    The losses take turns, each in the order of its papers, so that a small budget has seen all of
    them. A published setting outside the user's ranges or fixed values is left out; a loss with
    nothing to search has its one setting here.
    """
    queues = []
    for section in sweep.losses:
        space, fixed = loss_space(section), dict(section.hyperparameters)
        known = _has_space(section.name)
        published = published_settings(section.name, num_classes) if known else []
        settings = [{**given, **fixed} for given in published if _admits(space, given, fixed)]
        if not space and not settings:
            settings = [fixed]
        queues.append([(section.name, setting) for setting in _unique(settings)])
    rounds = range(max(map(len, queues)))
    turns = [queue[turn] for turn in rounds for queue in queues if turn < len(queue)]
    return [(BASELINE, {}), *(setting for setting in turns if setting != (BASELINE, {}))]


def suggest(trial: Trial, sweep: SweepFile) -> Setting:
    """One setting of the sweep, drawn by an Optuna trial; only the chosen loss is filled in."""
    space = sweep_space(sweep)
    searched = [name for name, branch in space.items() if branch]
    loss = trial.suggest_categorical("loss", searched)
    values = {name: _suggest(trial, f"{loss}.{name}", d) for name, d in space[loss].items()}
    fixed = next(dict(s.hyperparameters) for s in sweep.losses if s.name == loss)
    return loss, {**values, **fixed}


def optuna_parameters(sweep: SweepFile, setting: Setting) -> dict[str, Any] | None:
    """A setting as Optuna knows it, or None where it lies outside the space (the baseline, say)."""
    loss, values = setting
    branch = sweep_space(sweep).get(loss)
    if not branch or not all(n in values and _contains(d, values[n]) for n, d in branch.items()):
        return None
    return {"loss": loss, **{f"{loss}.{name}": values[name] for name in branch}}


def space_sizes(sweep: SweepFile) -> dict[str, float]:
    """For each searched loss, how many settings it has: infinity where a range is continuous."""
    return {
        loss: math.prod(map(_size, branch.values()))
        for loss, branch in sweep_space(sweep).items()
        if branch
    }


def all_settings(sweep: SweepFile, loss: str) -> Iterator[Setting]:
    """Every setting of a loss whose space is finite."""
    branch = sweep_space(sweep)[loss]
    fixed = next(dict(s.hyperparameters) for s in sweep.losses if s.name == loss)
    for values in itertools.product(*map(_values, branch.values())):
        yield loss, {**dict(zip(branch, values, strict=True)), **fixed}


def search_trials(sweep: SweepFile, initial: Sequence[Setting]) -> int:
    """How many trials the search has, less the seeds of finalists: no setting is trained twice.

    Args:
        sweep: The sweep.
        initial: See :func:`initial_settings`.
    """
    apart = sum(optuna_parameters(sweep, setting) is None for setting in initial)
    there_are = sum(space_sizes(sweep).values()) + apart
    return int(min(sweep.search.trials, there_are))


def setting_key(setting: Setting) -> tuple[Any, ...]:
    """Equal for settings that train the same; 1 and 1.0 are."""
    loss, values = setting
    return loss, *sorted((name, type(v) is bool, v) for name, v in values.items())


def _has_space(loss: str) -> bool:
    return loss in available_search_spaces()


def _distribution(
    loss: str, name: str, given: SpaceSection, default: BaseDistribution | None
) -> BaseDistribution:
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
        # It cannot be imported, by `calsweep sync` in another folder, say. What trains or checks
        # it has said so already, and others need the names of the hyperparameters only.
        return False


def _suggest(trial: Trial, name: str, distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(name, distribution.low, distribution.high, log=distribution.log)
    assert isinstance(distribution, FloatDistribution)
    return trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)


def _size(distribution: BaseDistribution) -> float:
    if isinstance(distribution, FloatDistribution) and not distribution.single():
        return math.inf
    return len(_values(distribution))


def _values(distribution: BaseDistribution) -> Sequence[Any]:
    """All values of a distribution that has finitely many."""
    if isinstance(distribution, CategoricalDistribution):
        return [c for i, c in enumerate(distribution.choices) if c not in distribution.choices[:i]]
    if isinstance(distribution, IntDistribution):
        return range(distribution.low, distribution.high + 1)
    return [distribution.low]  # type: ignore[attr-defined]


def _admits(
    space: dict[str, BaseDistribution], setting: dict[str, Any], fixed: dict[str, Any]
) -> bool:
    inside = all(name in setting and _contains(d, setting[name]) for name, d in space.items())
    return inside and all(setting.get(name, value) == value for name, value in fixed.items())


def _contains(distribution: BaseDistribution, value: Any) -> bool:
    try:
        return distribution._contains(distribution.to_internal_repr(value))
    except ValueError:  # not one of its choices
        return False


def _unique(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [s for i, s in enumerate(settings) if s not in settings[:i]]
