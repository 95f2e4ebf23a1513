"""Samples of equal content, such as copies of training samples in the test split."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from trainables.data.core.types import Labels

EQUAL_ROWS: Final = "equal_rows"
"""The value of the option ``group`` that keeps samples of equal content in one split."""

_LONG = 16  # bytes: longer content is replaced by a digest


def equal_numbers(parts: Sequence[Any]) -> list[Labels]:
    """A number for each sample of each part, (N,): equal ones for samples of equal content.

    Parts are arrays, of numbers (N, ...), texts or bytes (N,), or have a method
    ``contents`` that yields the bytes of the features of each sample.
    """
    known: dict[bytes, int] = {}
    return [
        np.fromiter(
            (known.setdefault(_short(each), len(known)) for each in _contents(part)),
            np.int64,
            len(part),
        )
        for part in parts
    ]


def copies_of(trained: Labels, held: Labels) -> Labels:
    """The number (N,) of each held-out sample if a training sample has it, else -1."""
    return np.where(np.isin(held, trained), held, -1)


def remark_on_copies(copies: Mapping[str, Labels]) -> tuple[str, ...]:
    """A sentence about held-out samples that equal a training sample; empty without any."""
    found = [
        f"{(own >= 0).sum():,} of {len(own):,} {split} samples"
        for split, own in copies.items()
        if (own >= 0).any()
    ]
    if not found:
        return ()
    return (
        f"{' and '.join(found)} equal a training sample in all features; dataset.group: "
        f"{EQUAL_ROWS} keeps equal rows of one file together",
    )


def _contents(samples: Any) -> Iterator[bytes]:
    if not isinstance(samples, np.ndarray):
        yield from samples.contents()
    elif samples.dtype == object:
        for each in samples:
            yield each.encode("utf-8", "surrogatepass") if isinstance(each, str) else each
    elif samples.dtype.kind == "f":
        yield from ((row + 0).tobytes() for row in samples)  # -0 is 0
    else:
        yield from (row.tobytes() for row in samples)


def _short(content: bytes) -> bytes:
    return content if len(content) <= _LONG else blake2b(content, digest_size=_LONG).digest()
