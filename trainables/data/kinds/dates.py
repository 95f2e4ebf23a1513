"""Numbers from a column of dates: ``signup.year``, ``signup.month`` and ``signup.weekday``."""

from __future__ import annotations

import pyarrow as pa

from trainables.data.kinds.encode import DATE_PARTS, as_dates


def date_features(column: str) -> list[str]:
    """Names of the features of a date column."""
    return [f"{column}.{part}" for part in DATE_PARTS]


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
