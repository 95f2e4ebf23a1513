from pathlib import Path

import numpy as np
import pytest

from trainables.data import load_dataset


def test_labels_come_from_folders_and_annotations(tiny_imagenet_root: Path) -> None:
    dataset = load_dataset("tiny_imagenet", root=tiny_imagenet_root, validation=10, seed=0)
    assert dataset.classes == ("goldfish", "bullfrog")
    assert dataset.input_shape == (3, 8, 8)
    np.testing.assert_array_equal(np.bincount(dataset.train.labels), [25, 25])
    np.testing.assert_array_equal(dataset.test.labels, np.arange(10) % 2 == 0)
    inside = load_dataset(
        "tiny_imagenet", root=tiny_imagenet_root / "tiny-imagenet-200", validation=10, seed=0
    )
    np.testing.assert_array_equal(inside.train.inputs, dataset.train.inputs)


def test_a_damaged_image_is_reported_or_skipped(tiny_imagenet_root: Path) -> None:
    file = tiny_imagenet_root / "tiny-imagenet-200/train/n02/images/n02_05.JPEG"
    file.write_bytes(file.read_bytes()[:100])
    options = {"root": tiny_imagenet_root, "validation": 10, "seed": 0}
    with pytest.raises(ValueError, match=rf"{file}: not a readable image"):
        load_dataset("tiny_imagenet", **options)
    dataset = load_dataset("tiny_imagenet", **options, on_bad_sample="skip")
    assert len(dataset.train) == 49
    assert "1 of 60 samples are skipped" in dataset.notes[0]


def test_what_is_missing_is_reported(tiny_imagenet_root: Path) -> None:
    place = tiny_imagenet_root / "tiny-imagenet-200"
    annotations = place / "val" / "val_annotations.txt"
    annotations.write_text("val_0.JPEG\tn09\t0\t0\t7\t7\n")
    with pytest.raises(ValueError, match=r"val_annotations.txt, line 1: train has no class 'n09'"):
        load_dataset("tiny_imagenet", root=place, seed=0)
    annotations.unlink()
    with pytest.raises(FileNotFoundError, match="set root to the unpacked tiny-imagenet-200"):
        load_dataset("tiny_imagenet", root=place, seed=0)
