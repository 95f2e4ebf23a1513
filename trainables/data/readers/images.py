"""Decodes encoded images (PNG, JPEG ...) into one array."""

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.types import Pixels
from trainables.data.readers.ahead import in_order

Encoded: TypeAlias = bytes | str | None
"""The content of a file, the reason why it is unreadable, or None if it is missing."""

Size: TypeAlias = tuple[int, int] | None
"""Height and width; None for the most frequent ones."""

THREADS = len(os.sched_getaffinity(0))
"""Number of decoding threads: the CPUs available to this process."""

AHEAD = 4 * THREADS
"""Bound on decoded images in memory, which may be large."""


def decode_images(
    contents: Callable[[], Iterable[Encoded]],
    bad: BadSamples,
    image_size: int | None,
    size: Size = None,
) -> Pixels:
    """Decodes images, one or more, into one array, uint8 (N, 1 or 3, H, W).

    Images are turned upright as their EXIF orientation says. Greyscale images stay greyscale if all
    are; otherwise all become RGB. Transparency is dropped, and 16-bit greyscale is reduced to 8
    bits. With ``image_size``, the shorter side is resized to it and the centre cropped. All images
    must have the ``size`` (H, W), by default the most frequent one. Unusable images are added to
    ``bad``; their rows of the array are undefined.
    """
    stack = np.empty((0, 1, 0, 0), np.uint8)
    sizes: dict[int, tuple[int, int]] = {}
    for position, (_, image) in enumerate(decoded(contents(), image_size)):
        if isinstance(image, str):
            bad.add(position, image)
            continue
        sizes[position] = image.shape[0], image.shape[1]
        if not stack.size:
            stack = np.zeros((bad.count, 1, *(size or sizes[position])), np.uint8)
        if stack.shape[2:] != sizes[position]:
            continue
        if image.ndim == 3 and stack.shape[1] == 1:
            stack = np.repeat(stack, 3, axis=1)
        stack[position] = channels_first(image)  # a grey image is copied to every channel
    usual = check_sizes(sizes, bad, size)
    if stack.size and stack.shape[2:] != usual:  # the first image had another size
        return decode_images(contents, bad, image_size, usual)
    return stack


def check_sizes(sizes: Mapping[int, tuple[int, int]], bad: BadSamples, wanted: Size = None) -> Size:
    """Adds images that have not the wanted size to the bad ones; by default the most frequent."""
    wanted = wanted or next((size for size, _ in Counter(sizes.values()).most_common(1)), None)
    for row, own in sizes.items():
        if wanted is not None and own != wanted:
            others = f"while other images have {wanted[0]}x{wanted[1]}"
            remedy = "set image_size to bring all to one size"
            bad.add(row, f"{own[0]}x{own[1]} pixels, {others}; {remedy}")
    return wanted


def decoded(
    encoded: Iterable[Encoded], image_size: int | None
) -> Iterator[tuple[Encoded, Pixels | str]]:
    """Decodes images in order, by several threads; only a few are in memory.

    Yields:
        Each file content with its pixels, (H, W) or (H, W, 3), or with the error as text.
    """

    def work(data: Encoded) -> tuple[Encoded, Pixels | str]:
        return data, decode(data, image_size=image_size)

    with ThreadPoolExecutor(THREADS) as pool:
        yield from in_order(pool.submit, work, encoded, AHEAD)


def channels_first(image: Pixels) -> Pixels:
    """Converts an image (H, W) to (1, H, W), or (H, W, 3) to (3, H, W)."""
    return image[np.newaxis] if image.ndim == 2 else image.transpose(2, 0, 1)


def decode(data: Encoded, *, image_size: int | None) -> Pixels | str:
    """Decodes an image to (H, W) or (H, W, 3), or returns the error as text."""
    if data is None or isinstance(data, str):
        return data or "there is no image"
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            if "exif" in image.info:  # Pillow itself turns TIFF upright
                ImageOps.exif_transpose(image, in_place=True)
            return _to_array(image, image_size)
    except UnidentifiedImageError:  # its text has an address in memory
        return "not a readable image (its format is not recognised)"
    # What a damaged image raises depends on its format and on where it is damaged.
    except Exception as error:
        return f"not a readable image ({error})"


def _to_array(image: Image.Image, image_size: int | None) -> Pixels:
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode!r}; 8 or 16 bits per channel are supported")
    elif image.mode == "P":
        image = image.convert("RGBA")  # straight to RGB warns about transparent palettes
    mode = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
    if image.mode != mode:
        image = image.convert(mode)
    if image_size is not None and image.size != (image_size, image_size):
        image = ImageOps.fit(image, (image_size, image_size), Image.Resampling.BILINEAR)
    # A quarter faster than np.asarray(image) for small images.
    pixels = np.frombuffer(image.tobytes(), np.uint8)
    return pixels.reshape(image.height, image.width, *((3,) if mode == "RGB" else ()))
