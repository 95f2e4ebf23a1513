"""Segmentation datasets in the format of PASCAL VOC."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from PIL import Image, ImageOps

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Dataset, Targets
from trainables.data.core.options import OF_IMAGES, CommonOptions, with_options
from trainables.data.core.splits import About, Part, build_dataset
from trainables.data.core.tasks import IGNORED, EachPixel
from trainables.data.core.types import Pixels
from trainables.data.kinds.arrays import SegmentedImages
from trainables.data.readers.storing import hold_images, image_part
from trainables.plugins.arguments import Range

_CLASSES: Final = (
    "background",
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
)


@with_options(*OF_IMAGES, validation=0.2)
def load_voc(
    *,
    root: str | os.PathLike[str],
    classes: tuple[str, ...] | None = None,
    image_size: Annotated[int, Range(8)] = 256,
    pixels: Annotated[int, Range(1)] = 100,
    common: CommonOptions,
) -> Dataset:
    """Segmentation: a class for each pixel. PASCAL VOC 2012, or your own data in its format.

    The images are ``JPEGImages/NAME.jpg`` (or ``.png``). ``SegmentationClass/NAME.png`` has the
    class of each pixel (8 bits, palette or grey; 255 is ignored). The names are listed in
    ``ImageSets/Segmentation/train.txt`` and ``val.txt``. The test split is the published validation
    set, whose labels are known; the validation split is held out from the rest by image. Masks are
    resized to the nearest pixel, and are always in memory.

    Source: M. Everingham et al., The PASCAL Visual Object Classes Challenge: A Retrospective, 2015.

    Options:
        root: Folder that contains these folders, or ``VOCdevkit/VOC2012`` with them.
        classes: Class names, in the order of the pixel values; by default the 21 of PASCAL VOC.
        pixels: Number of pixels per image, always the same ones, that metrics use. Training uses
            all.
    """
    place = _find(Path(root).expanduser())
    names = _CLASSES if classes is None else tuple(classes)
    if not 2 <= len(names) <= IGNORED:
        raise ValueError(f"classes has {len(names)} names; allowed: 2 to {IGNORED}")
    parts = [_read_part(place, name, image_size, len(names)) for name in ("train", "val")]
    images = hold_images([part.raw for part in parts], replace(common, image_size=image_size))
    train, test = (replace(part, raw=own) for part, own in zip(parts, images, strict=True))
    about = About(
        name="voc",
        classes=names,
        measure=partial(SegmentedImages.measured, augmentation="crop_flip"),
        task=EachPixel(pixels),
    )
    return build_dataset({"train": train, "test": test}, about, common)


def _find(root: Path) -> Path:
    for place in (root, root / "VOCdevkit" / "VOC2012"):
        if (place / "SegmentationClass").is_dir():
            return place
    raise FileNotFoundError(
        f"root={root} has no folder 'SegmentationClass', nor has its folder VOCdevkit/VOC2012"
    )


def _read_part(place: Path, part: str, image_size: int, num_classes: int) -> Part:
    """The images that a file lists, encoded, and the classes of their pixels, (N, H, W)."""
    file = place / "ImageSets" / "Segmentation" / f"{part}.txt"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read ({error}); it lists images by name") from None
    listed = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not listed:
        raise ValueError(f"{file} lists no image")
    bad = BadSamples(len(listed), lambda row: "{}, line {}, {}".format(file, *listed[row]))
    images = [_image_of(place, name) for _, name in listed]
    masks = np.full((len(listed), image_size, image_size), IGNORED, np.uint8)
    for row, (_, name) in enumerate(listed):
        mask = place / "SegmentationClass" / f"{name}.png"
        try:
            masks[row] = _read_mask(images[row], mask, image_size, num_classes)
        except ValueError as error:
            bad.add(row, f"{mask.parent.name}/{mask.name}: {error}")
    return Part(image_part(images, bad), Targets(masks), bad)


def _image_of(place: Path, name: str) -> Path:
    places = [place / "JPEGImages" / f"{name}{suffix}" for suffix in (".jpg", ".jpeg", ".png")]
    return next((path for path in places if path.is_file()), places[0])


def _read_mask(image: Path, mask: Path, image_size: int, num_classes: int) -> Pixels:
    """The mask of an image, (H, W), uint8; ``ValueError`` if it cannot be used."""
    if not mask.is_file():
        raise ValueError("there is no such mask")
    try:
        with Image.open(mask) as opened:
            opened.load()
            found = opened.copy()
    except Exception as error:  # the type of error for a damaged image depends on its format
        raise ValueError(f"not a readable image ({error})") from None
    if found.mode not in ("P", "L"):
        raise ValueError(
            f"pixels of mode {found.mode!r}; allowed: 8 bits, of a palette (P) or grey (L)"
        )
    if (wanted := _size_of(image)) is not None and found.size != wanted:
        raise ValueError(
            f"{found.width}x{found.height} pixels, while the image has {wanted[0]}x{wanted[1]}"
        )
    values = np.unique(np.asarray(found))
    if len(wrong := values[(values >= num_classes) & (values != IGNORED)]):
        raise ValueError(
            f"class {wrong[0]}; allowed: 0 to {num_classes - 1}, and {IGNORED} for what counts "
            "nowhere"
        )
    if found.size != (image_size, image_size):
        found = ImageOps.fit(found, (image_size, image_size), Image.Resampling.NEAREST)
    pixels = np.asarray(found)
    if (pixels == IGNORED).all():
        raise ValueError("no pixel has a class")
    return pixels


def _size_of(image: Path) -> tuple[int, int] | None:
    """Width and height; None if the image is unreadable, which decoding will report."""
    try:
        with Image.open(image) as opened:
            return opened.size
    except Exception:  # as above
        return None
