"""From encoded images (PNG, JPEG ...) to one array."""

import io
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from trainables.data.splits import Pixels

_CHUNK = 256
# Measured on two cores: below some 100x100 pixels threads wait for each other's Python code and
# take longer than one thread (32x32 JPEG, 900 bytes: 64 against 46 us); above, they pay.
_BYTES_WORTH_A_THREAD = 3_000


def decode_images(
    encoded: Iterable[bytes | None],
    count: int,
    *,
    image_size: int | None,
    where: Callable[[int], str],
    size: tuple[int, int] | None = None,
    on_bad: Callable[[int, str], None] | None = None,
) -> Pixels:
    """Decodes images into one array.

    Grey images stay grey if all are; one in colour makes all of them RGB. Transparency is dropped,
    16-bit grey is reduced to 8.

    Args:
        encoded: ``count`` files' contents; may be a generator, so that they are never all in
            memory.
        count: N, at least 1.
        image_size: Resize the shorter side to this and crop the centre; ``None`` takes images as
            they are.
        where: Names the image at an index, for messages.
        size: Height and width that all must have; by default those of the first.
        on_bad: Gets the index of each image that cannot be used, and why; its row of the array
            means nothing. By default that is an error.

    Returns:
        uint8, (N, 1 or 3, H, W).

    Raises:
        ValueError: An image is missing or not readable, or sizes differ and ``image_size`` is
            ``None``; names the image.
    """
    stack = np.empty((0, 1, 0, 0), np.uint8)
    remaining = enumerate(encoded)
    decode = partial(_decode, image_size=image_size)
    refuse = on_bad or partial(_refuse, where=where)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while chunk := list(islice(remaining, _CHUNK)):
            total = sum(len(data or b"") for _, data in chunk)
            threads = total >= _BYTES_WORTH_A_THREAD * len(chunk)
            contents = [data for _, data in chunk]
            decoded = (pool.map if threads else map)(decode, contents)
            for position, image in zip((index for index, _ in chunk), decoded, strict=True):
                if isinstance(image, str):
                    refuse(position, image)
                    continue
                if not stack.size:
                    stack = np.zeros((count, 1, *(size or image.shape[:2])), np.uint8)
                if image.shape[:2] != stack.shape[2:]:
                    refuse(
                        position,
                        f"{_size(image.shape)} pixels, while the first image has "
                        f"{_size(stack.shape[2:])}; set image_size to bring all to one size",
                    )
                    continue
                if image.ndim == 3 and stack.shape[1] == 1:
                    stack = np.repeat(stack, 3, axis=1)
                # A grey image is copied to every channel.
                stack[position] = image if image.ndim == 2 else image.transpose(2, 0, 1)
    return stack


def _refuse(index: int, fault: str, *, where: Callable[[int], str]) -> None:
    raise ValueError(f"{where(index)}: {fault}")


def match_channels(first: Pixels, second: Pixels) -> tuple[Pixels, Pixels]:
    """Makes grey images RGB if the others are RGB."""
    channels = max(first.shape[1], second.shape[1])
    matched = [
        images if images.shape[1] == channels else np.repeat(images, channels, axis=1)
        for images in (first, second)
    ]
    return matched[0], matched[1]


def _decode(data: bytes | None, *, image_size: int | None) -> npt.NDArray[np.uint8] | str:
    """The image, or what is wrong with it."""
    if data is None:
        return "there is no image"
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            return _to_array(image, image_size)
    # What a damaged image raises depends on its format and on where it is damaged.
    except Exception as error:
        return f"not a readable image ({error})"


def _to_array(image: Image.Image, image_size: int | None) -> npt.NDArray[np.uint8]:
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


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]}x{shape[1]}"
