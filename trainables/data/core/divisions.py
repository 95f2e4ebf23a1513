"""Divisions of the rows of one file into splits: by class, by named splits, by groups, by time."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trainables.data.core.stratified import HeldOutSplit, stratified_split
from trainables.data.core.tasks import strata
from trainables.data.core.types import Flags, Indices, Labels

SPLITS: Final = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}
"""Names of the splits in folders and columns, in lower case; upper case is the same."""

Names: TypeAlias = Sequence[str] | None
Shares: TypeAlias = npt.NDArray[np.float64]
_DRAWS: Final = 20_000  # of a group, in all orders together


class Division(ABC):
    """Divides rows into splits."""

    def hold_out(
        self, labels: Any, rows: Indices, classes: tuple[str, ...], held: HeldOutSplit
    ) -> tuple[Indices, Indices]:
        """``rows`` (n,), sorted, as those that remain and those of the split.

        ``labels`` are (N,) or (N, L) of all samples.

        Raises:
            ValueError: A class is not in both, or sizes are impossible.
        """
        kinds, names = strata(labels[rows], classes)
        chosen = self._chosen(kinds, rows, names, held)
        return rows[~chosen], rows[chosen]

    @abstractmethod
    def _chosen(self, kinds: Labels, rows: Indices, names: Names, held: HeldOutSplit) -> Flags:
        """Which of the rows (n,) are in the split; ``kinds`` (n,) are their strata."""


class ByClass(Division):
    """Drawn at random, with equal shares of each class."""

    def _chosen(self, kinds: Labels, rows: Indices, names: Names, held: HeldOutSplit) -> Flags:
        _, second = stratified_split(kinds, held, names)
        return np.isin(np.arange(len(rows)), second)


@dataclass(frozen=True)
class ByName(Division):
    """``splits`` (N,) are keys of :data:`SPLITS`; a split that none names is drawn of training."""

    splits: npt.NDArray[np.str_]

    def _chosen(self, kinds: Labels, rows: Indices, names: Names, held: HeldOutSplit) -> Flags:
        given = self.splits[rows]
        chosen: Flags = given == held.option.removesuffix("_size")
        if not chosen.any():
            of_training = given == "train"
            drawn = ByClass()._chosen(kinds[of_training], rows[of_training], names, held)
            chosen[np.flatnonzero(of_training)[drawn]] = True
        return chosen


@dataclass(frozen=True)
class ByGroup(Division):
    """``groups`` (N,) are numbers from 0; no group of ``column`` is in two splits."""

    column: str
    groups: Labels

    def _chosen(self, kinds: Labels, rows: Indices, names: Names, held: HeldOutSplit) -> Flags:
        values, groups = np.unique(self.groups[rows], return_inverse=True)
        counts = np.zeros((len(values), kinds.max() + 1))
        np.add.at(counts, (groups, kinds), 1)
        counts = counts[:, counts.any(0)]
        in_groups = (counts > 0).sum(0)
        if (fewest := in_groups.min()) < held.needed:
            named = _named(np.unique(kinds)[in_groups.argmin()], names)
            raise ValueError(
                f"group={self.column}: class {named} is in {fewest} of {len(values)} groups; "
                f"{held.needed} are needed, so that each class is in all splits"
            )
        share = held.count(len(rows)) / len(rows)
        if (found := _draw_groups(counts, share, held)) is None:
            raise ValueError(
                f"group={self.column}: {held.option}={held.size} leaves no way to divide "
                f"{len(values)} groups with all classes in each split"
            )
        return found[groups]


class ByEqualRows(ByClass):
    """No two samples of equal content are in two splits; a :class:`ByGroup` once they are read."""


@dataclass(frozen=True)
class ByTime(Division):
    """The latest rows are the split; rows of one time (N,) of ``column`` stay together."""

    column: str
    times: npt.NDArray[Any]

    def _chosen(self, kinds: Labels, rows: Indices, names: Names, held: HeldOutSplit) -> Flags:
        times = self.times[rows]
        starts, counts = np.unique(times, return_counts=True)
        sizes = counts[::-1].cumsum()[::-1]  # of the split that starts at each time
        start = np.abs(sizes[1:] - held.count(len(rows))).argmin() + 1 if len(starts) > 1 else 0
        chosen: Flags = times >= starts[start]
        if lost := set(kinds) - set(kinds[~chosen]):
            raise ValueError(
                f"time={self.column}: {held.option}={held.size} leaves no sample of class "
                f"{_named(min(lost), names)} for training, because all are among the latest; hold "
                "out less"
            )
        return chosen


@dataclass(frozen=True)
class ByGroupAndTime(ByTime):
    """The latest rows are the split; rows before them are in none if it has their group."""

    by_group: ByGroup

    def hold_out(
        self, labels: Any, rows: Indices, classes: tuple[str, ...], held: HeldOutSplit
    ) -> tuple[Indices, Indices]:
        """See :meth:`Division.hold_out`; some rows are neither among those that remain."""
        rest, latest = super().hold_out(labels, rows, classes, held)
        groups = self.by_group.groups
        kept = ~np.isin(groups[rest], groups[latest])
        kinds, names = strata(labels[rest], classes)
        if lost := set(kinds) - set(kinds[kept]):
            raise ValueError(
                f"group={self.by_group.column}, time={self.column}: {held.option}={held.size} "
                f"leaves no sample of class {_named(min(lost), names)} for training, as all groups "
                "with such samples are also among the latest rows; hold out less, or give one of "
                "the two options"
            )
        return rest[kept], latest


def _named(kind: int, names: Names) -> str:
    return str(kind) if names is None else repr(names[kind])


def _draw_groups(counts: Shares, share: float, held: HeldOutSplit) -> Flags | None:
    """Which groups (G,) hold the wanted share of each class best, of several random orders.

    ``counts`` (G, K) are samples. Each class is in a group that is drawn, and in as many others as
    there are splits to make. None if no order has led to such groups.
    """
    generator = np.random.default_rng(held.seed)
    scaled, there = counts / counts.sum(0), counts > 0
    best, least = None, np.inf
    for _ in range(max(1, min(50, _DRAWS // len(counts)))):
        if (drawn := _one_draw(scaled, there, share, held.needed - 1, generator)) is None:
            continue
        error = np.square(scaled[drawn].sum(0) - share).sum()
        if error < least:
            best, least = drawn, error
    return best


def _one_draw(
    scaled: Shares, there: Flags, share: float, spare: int, generator: np.random.Generator
) -> Flags | None:
    """Groups in random order, each taken if it brings the shares of the classes closer."""
    drawn = np.zeros(len(scaled), bool)
    missing, left = np.full(scaled.shape[1], share), there.sum(0)
    order = generator.permutation(len(scaled))

    def candidates() -> Iterator[tuple[int, bool]]:
        for kind in np.argsort(left):  # first a group with each class, from the rarest class on
            for group in order[there[order, kind]]:
                if there[drawn, kind].any():
                    break
                yield group, True
        yield from ((group, False) for group in order)

    for group, must in candidates():
        closer = np.square(missing - scaled[group]).sum() < np.square(missing).sum()
        if not drawn[group] and (must or closer) and (left - there[group] >= spare).all():
            drawn[group] = True
            missing, left = missing - scaled[group], left - there[group]
    return drawn if there[drawn].any(0).all() else None
