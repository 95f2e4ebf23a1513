"""Storage of images: decoded in memory, or encoded on disk."""

import io
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.options import Cache, CommonOptions, Storage
from trainables.data.core.types import Stored
from trainables.data.readers.images import Encoded, Size, decode_images
from trainables.data.readers.streamed import keep_images
from trainables.files.storage import digest_of

# An array exists in the process that reads it, in Ray's object store, and once more while it is
# split.
_SHARE_IN_MEMORY = 0.25
_MOST_IN_MEMORY = 0.9

_SAMPLED = 64
"""Number of images that are looked at before all are read."""

_TWELVE_BITS = 2**12

_DECODING = "upright"
"""Names how images are decoded; files with facts about images decoded otherwise are not used."""


@dataclass(frozen=True)
class ImagePart:
    """The images of a part of a dataset, at their source.

    Attributes:
        contents: Returns an iterator over the encoded images, from the first.
        bad: Collects unusable images.
        origin: Identifies the images and the version of their files.
    """

    contents: Callable[[], Iterable[Encoded]]
    bad: BadSamples
    origin: Callable[[], object]


def image_part(files: list[Path], bad: BadSamples) -> ImagePart:
    """The images in local files; names, sizes and modification times identify them."""
    return ImagePart(lambda: map(read_file, files), bad, partial(_origin, files))


def read_file(file: Path) -> Encoded:
    """The content of a file, or the reason why it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        return f"{file.parent.name}/{file.name} cannot be read: {error.strerror}"


def _origin(files: list[Path]) -> object:
    found = [(file, file.stat()) for file in files if file.is_file()]
    return [(str(file.absolute()), stat.st_size, stat.st_mtime_ns) for file, stat in found]


def hold_images(parts: list[ImagePart], common: CommonOptions) -> list[Stored]:
    """The images of one or two parts, with equal size and number of channels.

    Without ``storage``, they are streamed if they would take more than a quarter of the memory; see
    :mod:`trainables.data`. Raises ``ValueError`` if they do not fit into memory, use a fraction
    of the range of 16 bits, or the folder cannot be written.
    """
    _check_depth(parts[0])
    image_size = common.image_size
    folder = _folder(common.cache) if _is_streamed(parts, image_size, common.storage) else None
    held: list[Stored] = []
    for part in parts:
        size: Size = tuple(held[0].shape[2:]) if held else None
        held.append(_held(part, image_size, size, folder))
    return match_channels(*held)


def _check_depth(part: ImagePart) -> None:
    """Refuses pictures of 12 bits or less in 16-bit files: 8 bits would leave at most 16 levels."""
    largest = 0
    for data in islice(part.contents(), _SAMPLED):
        # What a damaged image raises depends on its format and on where it is damaged.
        with suppress(Exception), Image.open(io.BytesIO(data)) as image:  # type: ignore[arg-type]
            if not image.mode.startswith("I;16"):
                return
            largest = max(largest, int(np.asarray(image).max()))
    if 0 < largest < _TWELVE_BITS:
        raise ValueError(
            f"{part.bad.where(0)}: 16 bits per pixel, of which the first images use values up to "
            f"{largest}; calsweep keeps the upper 8 bits, {largest // 256 + 1} levels of grey; "
            f"multiply the values by {2**16 // 2 ** largest.bit_length()}"
        )


def _is_streamed(parts: list[ImagePart], image_size: int | None, storage: Storage) -> bool:
    if storage == "stream":
        return True
    count = sum(part.bad.count for part in parts)
    width, height = _size(parts[0].contents, image_size)
    needed, available = 3 * count * width * height, _memory()
    if storage is None:
        return needed > _SHARE_IN_MEMORY * available
    if needed > _MOST_IN_MEMORY * available:
        raise ValueError(
            f"storage=memory: {count:,} images of {width} x {height} pixels take "
            f"{needed / 1e9:,.0f} GB; this machine has {available / 1e9:,.0f} GB; set a smaller "
            "image_size, or storage to stream"
        )
    return False


def _size(contents: Callable[[], Iterable[Encoded]], image_size: int | None) -> tuple[int, int]:
    """Width and height of the first readable image."""
    if image_size is not None:
        return image_size, image_size
    for data in islice(contents(), _SAMPLED):
        # What a damaged image raises depends on its format and on where it is damaged.
        with suppress(Exception), Image.open(io.BytesIO(data)) as image:  # type: ignore[arg-type]
            return image.size
    return 0, 0


def _memory() -> int:
    """Memory limit of this machine or container, in bytes."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # there is no such file, or it says "max"
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return machine


def _folder(cache: Cache) -> Path:
    if cache is not None:
        return Path(cache).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "calsweep"


def _held(part: ImagePart, image_size: int | None, size: Size, folder: Path | None) -> Stored:
    """The images in memory, or encoded in a file in the folder."""
    if folder is None:
        return decode_images(part.contents, part.bad, image_size, size)
    key = digest_of(repr((part.origin(), image_size, _DECODING)).encode())
    path = folder.absolute() / f"images-{key}.arrow"
    return keep_images(path, part.contents, part.bad, image_size, size)


def match_channels(*held: Stored) -> list[Stored]:
    """Converts greyscale images to RGB if others are RGB."""
    channels = max(images.shape[1] for images in held)
    matched: list[Stored] = []
    for images in held:
        if isinstance(images, np.ndarray):
            grey = images.shape[1] < channels
            matched.append(np.repeat(images, channels, axis=1) if grey else images)
        else:
            matched.append(replace(images, sample_shape=(channels, *images.sample_shape[1:])))
    return matched
