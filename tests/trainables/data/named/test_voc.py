"""PASCAL VOC images and masks: reading, errors and augmentation."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.harness.voc import CLASSES, write_voc
from trainables.data import Dataset, SegmentedImages, Split, load_dataset
from trainables.data.core.tasks import IGNORED, EachPixel
from trainables.data.kinds.arrays import Images


def load(root: Path, **options: Any) -> Dataset:
    known = {"root": root, "classes": CLASSES, "image_size": 32}
    return load_dataset("voc", seed=0, **{**known, **options})


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_voc(tmp_path_factory.mktemp("voc") / "VOCdevkit" / "VOC2012", 10, 5)


def test_images_and_masks_are_read_alike(scenes: Path) -> None:
    dataset = load(scenes.parents[1], pixels=7)
    assert [len(each) for each in (dataset.train, dataset.validation, dataset.test)] == [8, 2, 5]
    assert dataset.task == EachPixel(7)
    assert dataset.classes == CLASSES
    assert dataset.num_outputs == 3
    for split in (dataset.train, dataset.validation, dataset.test):
        assert (split.inputs.shape[1:], split.labels.shape[1:]) == ((3, 32, 32), (32, 32))
        colours = split.rows(slice(None)).transpose(0, 2, 3, 1).astype(int)
        for kind in (1, 2):  # a red shape has the red class in the mask
            there = colours[split.labels == kind]
            assert (there[:, kind - 1] > there[:, 3 - kind - 1]).mean() > 0.7
        assert set(np.unique(split.labels)) == {0, 1, 2, IGNORED}


def test_pictures_may_stay_on_the_disk(scenes: Path, tmp_path: Path) -> None:
    held, streamed = load(scenes), load(scenes, storage="stream", cache=tmp_path)
    assert streamed.train.is_streamed
    np.testing.assert_array_equal(streamed.train.rows(slice(None)), held.train.inputs)
    np.testing.assert_array_equal(streamed.train.labels, held.train.labels)
    assert streamed.digest() == held.digest()


def broken(scenes: Path, tmp_path: Path) -> Path:
    """One image with each fault, in the training list."""
    root = shutil.copytree(scenes, tmp_path / "broken")
    images, masks = root / "JPEGImages", root / "SegmentationClass"
    (masks / "train_000.png").unlink()
    Image.new("P", (5, 6)).save(masks / "train_001.png")
    for number, mode, colour in ((2, "L", 3), (3, "RGB", 0), (4, "L", IGNORED)):
        with Image.open(images / f"train_00{number}.jpg") as opened:
            size = opened.size
        Image.new(mode, size, colour).save(masks / f"train_00{number}.png")
    (masks / "train_005.png").write_bytes(b"no picture")
    (images / "train_006.jpg").unlink()
    return root


FAULTS = (
    "line 1, train_000: SegmentationClass/train_000.png: there is no such mask",
    "line 2, train_001: SegmentationClass/train_001.png: 5x6 pixels, while the image has 40x36",
    "line 3, train_002: SegmentationClass/train_002.png: class 3; allowed: 0 to 2, and 255 for",
    "line 4, train_003: SegmentationClass/train_003.png: pixels of mode 'RGB'; allowed: 8 bits",
    "line 5, train_004: SegmentationClass/train_004.png: no pixel has a class",
    "line 6, train_005: SegmentationClass/train_005.png: not a readable image",
    "line 7, train_006: JPEGImages/train_006.jpg cannot be read: No such file",
)


def test_all_that_is_wrong_is_reported_at_once_by_file_and_line(
    scenes: Path, tmp_path: Path
) -> None:
    root = broken(scenes, tmp_path)
    with pytest.raises(ValueError, match="7 of 10 samples cannot be used:") as raised:
        load(root)
    for fault in FAULTS:
        assert f"train.txt, {fault}" in str(raised.value)
    dataset = load(root, on_bad_sample="skip", validation=1)
    assert (len(dataset.train), len(dataset.validation)) == (2, 1)
    assert dataset.notes[0].startswith("7 of 10 samples are skipped:\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"root": "/nowhere"}, "root=/nowhere has no folder 'SegmentationClass'"),
        ({"classes": ["one"]}, "classes has 1 names; allowed: 2 to 255"),
        ({"validation": 10}, "validation=10 holds out 10 of 10 samples"),
        ({"pixels": 0}, "pixels=0: expected an integer of at least 1"),
    ],
)
def test_what_cannot_be_loaded(scenes: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load(**{"root": scenes, **options})


def test_a_list_that_is_not_there_is_named(scenes: Path, tmp_path: Path) -> None:
    root = shutil.copytree(scenes, tmp_path / "short")
    (root / "ImageSets" / "Segmentation" / "val.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"val\.txt lists no image"):
        load(root)
    (root / "ImageSets" / "Segmentation" / "val.txt").unlink()
    with pytest.raises(ValueError, match=r"val\.txt cannot be read .* it lists images by name"):
        load(root)


def test_a_class_of_each_pixel_needs_masks_as_large_as_the_images() -> None:
    images = np.zeros((2, 3, 8, 8), np.uint8)
    samples = SegmentedImages((3, 8, 8), (0.5,) * 3, (0.5,) * 3)

    def dataset(labels: Any, kind: Images = samples) -> Dataset:
        split = Split(images, labels)
        return Dataset("a", split, split, split, ("a", "b"), kind, task=EachPixel(4))

    assert dataset(np.zeros((2, 8, 8), np.uint8)).input_shape == (3, 8, 8)
    with pytest.raises(ValueError, match=r"masks \(N, H, W\) as large; not for .*\(2, 8, 7\)"):
        dataset(np.zeros((2, 8, 7), np.uint8))
    with pytest.raises(ValueError, match=r"is for SegmentedImages, .*; not for images of 3 x 8"):
        dataset(np.zeros((2, 8, 8), np.uint8), Images((3, 8, 8), (0.5,) * 3, (0.5,) * 3))
    with pytest.raises(TypeError, match="labels must be uint8, not int64"):
        dataset(np.zeros((2, 8, 8), np.int64))
    with pytest.raises(ValueError, match="train labels run from 0 to 2; 2 classes allow 0 to 1"):
        dataset(np.full((2, 8, 8), 2, np.uint8) * (np.arange(8) > 3).astype(np.uint8))
    with pytest.raises(ValueError, match=r"no pixel of image 0 .from 0. has a class"):
        dataset(np.full((2, 8, 8), IGNORED, np.uint8))
    with pytest.raises(TypeError, match="numpy array of int64, not uint8"):
        Split(images, np.zeros(2, np.uint8))
