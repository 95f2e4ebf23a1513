import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.types import Pixels
from trainables.data.readers.images import decode_images
from trainables.data.readers.storing import match_channels


def encode(image: Image.Image, form: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


def noise(count: int, *shape: int) -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8)


def decode(files: list[bytes | None], image_size: int | None = None) -> Pixels:
    bad = BadSamples(len(files), "image {}".format)
    images = decode_images(lambda: files, bad, image_size)
    bad.raise_first()
    return images


@settings(max_examples=30)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)).flatmap(
        lambda shape: arrays(np.uint8, st.sampled_from([shape, (*shape, 3)]))
    )
)
def test_png_pixels_survive(images: Pixels) -> None:
    decoded = decode([encode(Image.fromarray(image)) for image in images])
    expected = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(decoded, expected)


@pytest.mark.parametrize("side", [8, 64])  # small images: one thread; large images: several
def test_order_is_kept_over_many_chunks(side: int) -> None:
    images = noise(600, side, side, 3)
    decoded = decode([encode(Image.fromarray(image)) for image in images])
    np.testing.assert_array_equal(decoded, images.transpose(0, 3, 1, 2))


def test_one_colour_image_makes_all_of_them_rgb() -> None:
    grey, colour = noise(2, 4, 4), noise(1, 4, 4, 3)
    decoded = decode([encode(Image.fromarray(image)) for image in (grey[0], colour[0], grey[1])])
    assert decoded.shape == (3, 3, 4, 4)
    for channel in range(3):
        np.testing.assert_array_equal(decoded[0, channel], grey[0])
        np.testing.assert_array_equal(decoded[1, channel], colour[0, :, :, channel])
        np.testing.assert_array_equal(decoded[2, channel], grey[1])


def test_sixteen_bits_become_eight() -> None:
    wide = np.array([[0, 255, 256], [511, 32768, 65535]], np.uint16)
    decoded = decode([encode(Image.fromarray(wide))])
    np.testing.assert_array_equal(decoded[0, 0], [[0, 0, 1], [1, 128, 255]])


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("image_size", [None, 16])
def test_images_are_turned_upright(form: str, image_size: int | None) -> None:
    rows = np.repeat(np.array([0, 255], np.uint8), 16)
    exif = Image.Exif()
    exif[0x0112] = 6  # a phone held upright: turn by 90 degrees clockwise
    file = io.BytesIO()
    Image.fromarray(np.tile(rows[:, None], 48)).convert("RGB").save(file, form, exif=exif)
    decoded = decode([file.getvalue()], image_size)[0, 0]
    assert decoded.shape == ((48, 32) if image_size is None else (16, 16))
    left, right = np.split(decoded, 2, axis=1)
    assert left.min() > 200 and right.max() < 50


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_modes(mode: str) -> None:
    image = Image.fromarray(noise(1, 6, 6, 3)[0]).convert(mode)
    decoded = decode([encode(image)])
    if mode in ("1", "L", "LA"):
        expected = np.asarray(image.convert("L"))[None]
    else:
        expected = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    np.testing.assert_array_equal(decoded[0], expected)


@pytest.mark.parametrize(
    ("height", "width", "resized", "box"),
    [(10, 30, (15, 5), (5, 0, 10, 5)), (30, 10, (5, 15), (0, 5, 5, 10))],
)
def test_image_size_resizes_the_shorter_side_and_crops_the_centre(
    height: int, width: int, resized: tuple[int, int], box: tuple[int, int, int, int]
) -> None:
    image = Image.fromarray(noise(1, height, width)[0])
    expected = image.resize(resized, Image.Resampling.BILINEAR).crop(box)
    np.testing.assert_array_equal(decode([encode(image)], 5)[0, 0], np.asarray(expected))


def test_image_size_leaves_images_of_that_size_alone() -> None:
    images = noise(2, 6, 6)
    decoded = decode([encode(Image.fromarray(image)) for image in images], 6)
    np.testing.assert_array_equal(decoded[:, 0], images)


GOOD = encode(Image.fromarray(noise(1, 8, 8, 3)[0]))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "image 1: there is no image"),
        (b"", r"image 1: not a readable image \(its format is not recognised\)"),
        (b"no image at all", "image 1: not a readable image"),
        (GOOD[:-40], "image 1: not a readable image"),
        (
            encode(Image.fromarray(np.ones((8, 8), np.float32)), "TIFF"),
            r"image 1: not a readable image \(pixels of mode 'F'; 8 or 16 bits",
        ),
        (
            encode(Image.fromarray(noise(1, 8, 7, 3)[0])),
            "image 1: 8x7 pixels, while other images have 8x8; set image_size",
        ),
    ],
)
def test_bad_images_are_named(bad: bytes | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode([GOOD, bad, GOOD])


def test_match_channels() -> None:
    grey, colour = noise(2, 1, 4, 4), noise(2, 3, 4, 4)
    first, second = match_channels(grey, colour)
    np.testing.assert_array_equal(first, np.repeat(grey, 3, axis=1))
    assert second is colour
    assert match_channels(grey, grey)[0] is grey
