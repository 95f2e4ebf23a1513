"""A small dataset in the format of PASCAL VOC: coloured shapes on a dark background."""

from pathlib import Path

import numpy as np
from PIL import Image

from trainables.data.core.tasks import IGNORED

CLASSES = ("background", "red", "green")


def write_voc(root: Path, train: int = 40, val: int = 30, size: int = 36) -> Path:
    """Writes images of several sizes with one or two shapes, whose borders are ignored.

    Args:
        root: An empty folder, or none.
        train: Number of images in ``train.txt``.
        val: Likewise ``val.txt``.
        size: Size of the shorter side, in pixels.
    """
    for folder in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (root / folder).mkdir(parents=True)
    random = np.random.default_rng(0)
    for part, count in (("train", train), ("val", val)):
        names = [f"{part}_{number:03}" for number in range(count)]
        for number, name in enumerate(names):
            image, mask = _scene(random, size, size + 4 * (number % 3))
            Image.fromarray(image).save(root / "JPEGImages" / f"{name}.jpg", quality=95)
            drawn = Image.frombytes("P", mask.shape[::-1], mask.tobytes())
            drawn.putpalette(random.integers(0, 256, 768).tolist())  # keeps 8 bits per pixel
            drawn.save(root / "SegmentationClass" / f"{name}.png")
        listed = "\n".join(names) + "\n"
        (root / "ImageSets" / "Segmentation" / f"{part}.txt").write_text(listed)
    return root


def _scene(random: np.random.Generator, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    image = random.integers(0, 90, (height, width, 3), dtype=np.uint8)
    mask = np.zeros((height, width), np.uint8)
    for kind in random.choice([1, 2], random.integers(1, 3), replace=False).tolist():
        side = int(random.integers(10, 16))
        top, left = random.integers(0, height - side), random.integers(0, width - side)
        mask[top : top + side, left : left + side] = IGNORED
        inner = slice(top + 1, top + side - 1), slice(left + 1, left + side - 1)
        mask[inner] = kind
        colour = random.integers(0, 110, (side - 2, side - 2, 3), dtype=np.uint8)
        colour[..., kind - 1] += random.integers(40, 120, dtype=np.uint8)
        image[inner] = colour
    return image, mask
