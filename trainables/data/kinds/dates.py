"""Numbers from a column of dates: ``signup.year``, ``signup.month`` and ``signup.weekday``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_PARTS: Final = {"year": pc.year, "month": pc.month, "weekday": pc.day_of_week}
_ISO: Final = r"^\s*(?P<date>\d{4}-\d{1,2}-\d{1,2})(?:[T ].*)?$"


def date_features(column: str) -> list[str]:
    """Names of the features of a date column."""
    return [f"{column}.{part}" for part in _PARTS]


def date_column(feature: str, columns: Collection[str]) -> str | None:
    """The date column of a feature; None if the feature is a column itself, or unknown."""
    column, _, part = feature.rpartition(".")
    return column if feature not in columns and part in _PARTS and column in columns else None


def is_dates(values: pa.Array | pa.ChunkedArray) -> bool:
    """Whether values are dates: of a type of dates, or words such as 2026-11-24 or 2026-11-24 9:30.

    Missing values are ignored; a column without any value has no dates.
    """
    known = values.drop_null()
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return len(known) > 0
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return False
    return len(known) > 0 and as_dates(known).null_count == 0


def date_feature(feature: str, dates: pa.ChunkedArray) -> pa.ChunkedArray:
    """The numbers of a feature, float64: year, month from 1, or weekday from 0 for Monday.

    Words that are no dates count as missing.
    """
    part = _PARTS[feature.rpartition(".")[2]]
    return part(as_dates(dates)).cast(pa.float64())


def as_dates(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates from words; null where a word is no date. Other types are returned unchanged."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return values
    found = pc.struct_field(pc.extract_regex(values, _ISO), "date")
    return pc.strptime(found, format="%Y-%m-%d", unit="s", error_is_null=True)
