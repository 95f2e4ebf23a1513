"""Images that stay encoded on disk, for data larger than memory.

An Arrow file contains the encoded images of a part of a dataset, with facts that were collected
when it was written. It is memory-mapped, so the processes of a machine share its pages.
"""

import os
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.types import Pixels, Streamed
from trainables.data.kinds.arrays import channel_sums
from trainables.data.readers.ahead import in_order
from trainables.data.readers.images import (
    AHEAD,
    THREADS,
    Encoded,
    Size,
    channels_first,
    check_sizes,
    decode,
    decoded,
)

_SCHEMA = pa.schema(
    [
        ("image", pa.large_binary()),
        ("fault", pa.string()),  # the error, if it is unusable
        ("shape", pa.list_(pa.int32(), 3)),  # height, width, channels
        ("sums", pa.list_(pa.int64(), 6)),  # of each channel's values, and of their squares
    ]
)
_AT_ONCE = 32  # images that are written
_DAMAGED = "{} is damaged; delete it, and it is written again: {}"


@dataclass(frozen=True, eq=False)
class EncodedImages(Streamed):
    """Images of equal size in some rows of a file."""

    image_size: int | None

    def read(self) -> Pixels:
        """See :class:`Streamed`."""
        pixels = np.empty(self.shape, np.uint8)
        for place, data in zip(pixels, self._encoded(), strict=True):
            place[:] = self._decode(data)
        return pixels

    def each(self) -> Iterator[Pixels]:
        """See :class:`Streamed`."""
        with ThreadPoolExecutor(THREADS) as pool:
            for image in in_order(pool.submit, self._decode, self._encoded(), AHEAD):
                yield np.ascontiguousarray(np.broadcast_to(image, self.sample_shape))

    def sums(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """See :class:`Streamed`."""
        values = _numbers(self.path, "sums")[self.rows].sum(axis=0)
        channels = self.sample_shape[0]
        return values[:channels], values[3 : 3 + channels]

    def contents(self) -> Iterator[bytes]:
        """Sums of pixels and of their squares, and the size of the file; see :class:`Streamed`."""
        import pyarrow.compute as pc

        sizes = np.asarray(pc.binary_length(_opened(self.path)["image"]))
        known = np.column_stack([_numbers(self.path, "sums"), sizes]).astype(np.int64)
        return (row.tobytes() for row in known[self.rows])

    def _encoded(self) -> Iterator[bytes]:
        images = _opened(self.path)["image"]
        return (images[row].as_py() for row in self.rows.tolist())

    def _decode(self, data: bytes) -> Pixels:
        image = decode(data, image_size=self.image_size)
        if isinstance(image, str):
            raise ValueError(_DAMAGED.format(self.path, image))
        return channels_first(image)


def keep_images(
    path: Path,
    contents: Callable[[], Iterable[Encoded]],
    bad: BadSamples,
    image_size: int | None,
    size: Size = None,
) -> EncodedImages:
    """Stores encoded images in a file at an absolute path, unless it exists already.

    ``contents`` are read only then. For the other arguments see
    :func:`~trainables.data.readers.images.decode_images`. Raises ``ValueError`` if the folder
    cannot be written, or the file there is damaged.
    """
    if not path.exists():
        _write(path, decoded(contents(), image_size))
    for row, fault in enumerate(_opened(str(path))["fault"].to_pylist()):
        if fault is not None:
            bad.add(row, fault)
    shapes = _numbers(str(path), "shape")
    readable = np.flatnonzero(shapes.all(1)).tolist()
    usual = check_sizes({row: tuple(shapes[row, :2].tolist()) for row in readable}, bad, size)
    height, width = usual or (0, 0)
    channels = int(shapes[(shapes[:, :2] == (height, width)).all(1), 2].max(initial=1))
    return EncodedImages(str(path), np.arange(len(shapes)), (channels, height, width), image_size)


def _write(path: Path, images: Iterator[tuple[Encoded, Pixels | str]]) -> None:
    """Write the file atomically; several processes may write the same file concurrently."""
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            with pa.ipc.new_file(file, _SCHEMA) as writer:
                while rows := [_row(*each) for each in islice(images, _AT_ONCE)]:
                    writer.write_batch(pa.RecordBatch.from_pylist(rows, _SCHEMA))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise ValueError(
            f"cache={path.parent} cannot be written: {error}; set cache to another folder"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _row(data: Encoded, image: Pixels | str) -> dict[str, object]:
    if isinstance(image, str):
        return {"image": b"", "fault": image, "shape": [0] * 3, "sums": [0] * 6}
    sums = [np.broadcast_to(each, 3) for each in channel_sums(channels_first(image)[np.newaxis])]
    shape = [*image.shape[:2], 1 if image.ndim == 2 else 3]
    return {"image": data, "fault": None, "shape": shape, "sums": np.concatenate(sums)}


def _numbers(path: str, column: str) -> npt.NDArray[Any]:
    """A column of equally long lists as an array, (N, length)."""
    values = _opened(path)[column]
    return np.asarray(values.combine_chunks().flatten()).reshape(len(values), -1)


@lru_cache(maxsize=16)
def _opened(path: str) -> pa.Table:
    """The content of the file, memory-mapped."""
    try:
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    except FileNotFoundError:
        raise ValueError(
            f"{socket.gethostname()} has no {path}, from which images are streamed; set the "
            "dataset's cache to a folder that all machines reach"
        ) from None
    except pa.ArrowInvalid as error:
        raise ValueError(_DAMAGED.format(path, error)) from error
