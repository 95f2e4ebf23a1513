"""Rows of a table, numbers and categories, as a kind of sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from trainables.data.core.samples import Samples
from trainables.data.core.types import Inputs, Stored
from trainables.data.kinds.encode import float_array, level_codes, table_rows
from trainables.plugins.arguments import few

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

Points: TypeAlias = tuple[tuple[float, float], ...]
"""Of an increasing map: numbers and their images."""


@dataclass(frozen=True)
class Columns:
    """Columns as read: float64 (numeric) or strings; missing values are null."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, rows: npt.NDArray[np.intp]) -> Columns:
        return Columns(self.table.take(rows))

    def contents(self) -> Iterator[bytes]:
        """The values of each row; texts as digests."""
        values = [_as_integers(column) for column in self.table.columns]
        return (row.tobytes() for row in np.stack(values, 1))


@dataclass(frozen=True)
class TableRows(Samples):
    """Rows of numbers and categories: float32, (N, numeric + categorical).

    Numbers are standardised with the statistics of the training rows; a missing number is NaN. A
    category is the index of its level, from 1; 0 is a missing value or a level that does not occur
    in training.

    The input of the model is the concatenation of the numbers, with missing ones replaced by 0 (the
    mean); an indicator of missing values for each numeric column that has some in training; and the
    indices of the categories.

    Attributes:
        mean: Mean of each numeric column over the training rows, without missing values.
        std: Standard deviation of each numeric column, above 0.
        has_missing: Whether each numeric column has missing values in training.
        levels: Sorted values of each categorical column in training.
        flags: The numeric columns that are true or false in training.
        last_years: The features that are years of dates, with the last one in training.
        scores: The :func:`normal_scores` of each numeric column that is skewed.
        shape: ``(width,)``, the shape of the model's input.
    """

    numeric: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    has_missing: tuple[bool, ...]
    categorical: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    flags: tuple[str, ...] = ()
    last_years: tuple[tuple[str, int], ...] = ()
    scores: tuple[Points, ...] = ()

    default_model: ClassVar[str] = "table_mlp"
    in_words: ClassVar[str] = "tables"
    encodes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        width = len(self.numeric) + sum(self.has_missing) + len(self.categorical)
        object.__setattr__(self, "shape", (width,))

    @classmethod
    def measured(
        cls,
        columns: Columns,
        *,
        numeric: Sequence[str],
        categorical: Sequence[str],
        flags: Sequence[str] = (),
    ) -> TableRows:
        """Creates this kind of sample with the statistics and levels of the training rows."""
        values = [float_array(columns.table[name]) for name in numeric]
        mean, std, missing = _statistics(np.stack(values, 1)) if values else ((), (), ())
        levels = [
            tuple(sorted(columns.table[name].unique().drop_null().to_pylist()))
            for name in categorical
        ]
        numbers = [(own - low) / width for own, low, width in zip(values, mean, std, strict=True)]
        scores = tuple(normal_scores(each) if _is_skewed(each) else () for each in numbers)
        words = tuple(categorical), tuple(levels)
        years = tuple(
            (name, int(np.nanmax(own)))
            for name, own in zip(numeric, values, strict=True)
            if f"{name.removesuffix('.year')}.weekday" in numeric and np.isfinite(own).any()
        )
        return cls(tuple(numeric), mean, std, missing, *words, tuple(flags), years, scores)

    @property
    def mixable(self) -> bool:  # type: ignore[override]
        """False if there are categories, which cannot be mixed."""
        return not self.categorical

    def __str__(self) -> str:
        return (
            f"table rows of {len(self.numeric)} numeric and {len(self.categorical)} "
            "categorical columns"
        )

    def encode(self, raw: Columns) -> Inputs:
        """Converts columns to rows (N, numeric + categorical)."""
        return table_rows(vars(self), raw.table)

    def unseen(self, raw: Columns) -> tuple[str, ...]:
        """Columns with levels that do not occur in training, or with years after it: which."""
        found = []
        for name, last in self.last_years:
            if later := int((float_array(raw.table[name]) > last).sum()):
                found.append(
                    f"{later:,} of {len(raw):,} rows have a year of {name.removesuffix('.year')} "
                    f"after {last}, the last in training: the model extrapolates"
                )
        for name, levels in zip(self.categorical, self.levels, strict=True):
            values = raw.table[name]
            new = values.filter(level_codes(values, levels) == 0).drop_null()
            if len(new):
                shown = few([repr(level) for level in new.unique().to_pylist()])
                found.append(
                    f"{len(new):,} of {len(values):,} rows have values of {name} that do not occur "
                    f"in training, and count as missing: {shown}"
                )
        return tuple(found)

    def listed(self) -> str:
        numbers, words = ", ".join(self.numeric) or "none", ", ".join(self.categorical) or "none"
        return f"numeric: {numbers}; categorical: {words}"

    def check(self, inputs: Stored) -> None:
        width = len(self.numeric) + len(self.categorical)
        self.check_array(inputs, "float32", (width,))

    def normalise(self, batch: Tensor) -> Tensor:
        import torch

        from trainables.data.kinds.augmentation import constant

        count = len(self.numeric)
        numbers, categories = batch[:, :count], batch[:, count:]
        missing = numbers.isnan()
        # Indices instead of a mask: the result of a mask has no static shape for torch.export.
        places = tuple(place for place, has in enumerate(self.has_missing) if has)
        flags = missing.index_select(1, constant(places, torch.int64, batch.device))
        # Codes that no level has count as missing, because ONNX counts negative ones from the end.
        highest = constant(tuple(map(len, self.levels)), batch.dtype, batch.device)
        known = (categories >= 0) & (categories <= highest)
        categories = torch.where(known, categories, 0)
        return torch.cat([numbers.nan_to_num(nan=0.0), flags.to(batch.dtype), categories], dim=1)


def _as_integers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A column as integers (N,): equal ones for equal values."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        values = float_array(column)
        return np.where(np.isnan(values), np.nan, values + 0).view(np.int64)  # -0 is 0
    coded = column.cast("string").combine_chunks().dictionary_encode()
    digests = [
        blake2b(text.encode(), digest_size=8).digest() for text in coded.dictionary.to_pylist()
    ]
    known = np.frombuffer(b"".join([bytes(8), *digests]), np.int64)
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1
    return np.asarray(known[codes])


def _statistics(
    values: npt.NDArray[np.float64],
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[bool, ...]]:
    there = ~np.isnan(values)
    count = np.maximum(there.sum(0), 1)
    mean = np.where(there, values, 0).sum(0) / count
    std = np.sqrt(np.where(there, np.square(values - mean), 0).sum(0) / count)
    # Rounding makes the deviation of a constant decimal column positive, so check the range. A
    # constant column has no information; it becomes 0.
    low, high = np.where(there, values, np.inf).min(0), np.where(there, values, -np.inf).max(0)
    constant = high - low <= 1e-14 * np.maximum(np.abs(low), np.abs(high))
    std = np.where(constant, 1, std)
    missing: list[bool] = (there.sum(0) < len(values)).tolist()
    return tuple(mean.tolist()), tuple(std.tolist()), tuple(missing)


def _is_skewed(column: npt.NDArray[np.float64]) -> bool:
    """Whether a standardised column (N,) has more than two numbers, and a skewness above 2."""
    known = column[~np.isnan(column)]
    return len(np.unique(known)) > 2 and bool(abs(np.mean(known**3)) > 2)


def normal_scores(column: npt.NDArray[np.float64], most: int = 32) -> Points:
    """The different numbers of a column (N,), but at most `most`, and their normal scores.

    The score of a number is the quantile of the normal distribution at its rank, the mean rank of
    equal ones. The chosen numbers have evenly spaced scores, from the lowest to the highest.
    Missing numbers are ignored.
    """
    from scipy.special import ndtri

    known = column[~np.isnan(column)].astype(np.float32)
    numbers, counts = np.unique(known, return_counts=True)
    scores = ndtri((np.cumsum(counts) - counts / 2) / len(known))
    chosen = np.unique(np.searchsorted(scores, np.linspace(scores[0], scores[-1], most)))
    return tuple(zip(numbers[chosen].tolist(), scores[chosen].tolist(), strict=True))
