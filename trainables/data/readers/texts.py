"""Texts in a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trainables.data.core.bad_samples import BadSamples
from trainables.data.kinds.encode import split_words
from trainables.data.readers.rows import Rows


def read_texts(rows: Rows, bad: BadSamples, column: str) -> npt.NDArray[Any]:
    """Texts (N,) of Python strings; those without a word are added to the bad samples.

    Raises ``ValueError`` if the column is missing or holds something else.
    """
    if rows.content(column, "text") not in ("text", "nothing") and rows.typed:
        raise ValueError(f"{rows.holds(column)}, not texts")
    texts = rows.column(column, pa.string()).to_pylist()
    for row, text in enumerate(texts):
        if text is None or not split_words(text):
            bad.add(row, "there is no text" if not text else "there is no word in the text")
    return np.array([text or "" for text in texts], dtype=object)
