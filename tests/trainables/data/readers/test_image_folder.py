import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainables.data import load_dataset

WriteFolder = Callable[..., Path]


def test_two_trees(write_folder: WriteFolder) -> None:
    write_folder("train", {"b": 20, "a": 30})
    root = write_folder("test", {"b": 4, "a": 3})
    dataset = load_dataset("image_folder", root=root, validation=10, seed=0)
    assert dataset.classes == ("a", "b")
    assert [len(dataset.train), len(dataset.validation)] == [40, 10]
    np.testing.assert_array_equal(dataset.test.labels, [0, 0, 0, 1, 1, 1, 1])
    with Image.open(root / "test" / "b" / "002.png") as image:
        np.testing.assert_array_equal(dataset.test.inputs[5, 0], np.asarray(image))


def test_a_class_may_be_absent_from_the_test_tree(write_folder: WriteFolder) -> None:
    write_folder("train", {"a": 20, "b": 20})
    root = write_folder("test", {"b": 4})
    dataset = load_dataset("image_folder", root=root, seed=0)
    np.testing.assert_array_equal(dataset.test.labels, [1, 1, 1, 1])


def test_other_and_hidden_files_are_skipped(write_folder: WriteFolder) -> None:
    root = write_folder("", {"a": 10, "b/deeper": 10, ".cache": 2})
    (root / "readme.txt").write_text("hello")
    (root / "a" / "notes.txt").write_text("hello")
    (root / "a" / "._000.png").write_bytes(b"what another system leaves behind")
    shutil.copytree(root / "a", root / "b" / "deeper" / ".ipynb_checkpoints")
    dataset = load_dataset("image_folder", root=root, validation=4, seed=0)
    assert dataset.classes == ("a", "b")
    assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == 20


def test_images_of_different_sizes(write_folder: WriteFolder) -> None:
    write_folder("train", {"a": 10, "b": 10}, size=(9, 12))
    root = write_folder("test", {"a": 3, "b": 3}, size=(7, 5))
    with pytest.raises(
        ValueError, match=r"none of the 6 samples .*\n\S+a/000.png: 7x5 pixels, while other images"
    ):
        load_dataset("image_folder", root=root, seed=0, validation=2)
    dataset = load_dataset("image_folder", root=root, image_size=6, seed=0, validation=2)
    assert dataset.input_shape == (1, 6, 6)


def test_missing_root(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"root=\S+none is not a folder"):
        load_dataset("image_folder", root=tmp_path / "none", seed=0)


@pytest.mark.parametrize(
    ("train", "held", "test"),
    [
        ("Training", None, "Testing"),
        ("TRAIN", "Valid", "TEST"),
        ("train", "val", None),
        ("train", "validation", "test"),
        ("train", None, None),
    ],
)
def test_the_usual_names_of_splits(
    write_folder: WriteFolder, train: str, held: str | None, test: str | None
) -> None:
    root = write_folder(train, {"a": 20, "b": 30})
    for name, images in ((held, {"b": 5}), (test, {"a": 4, "b": 3})):
        if name is not None:
            write_folder(name, images)
    dataset = load_dataset("image_folder", root=root, seed=0)
    assert dataset.classes == ("a", "b")
    left_for_test = 0 if test else 10
    assert len(dataset.test) == (7 if test else 10)
    if held:
        assert dataset.validation.labels.tolist() == [1] * 5
        assert len(dataset.train) == 50 - left_for_test
    else:
        assert len(dataset.validation) == (50 - left_for_test) // 10
    assert not dataset.notes


def test_a_given_share_is_held_out_although_there_is_a_folder(write_folder: WriteFolder) -> None:
    write_folder("train", {"a": 20, "b": 30})
    root = write_folder("valid", {"a": 5, "b": 5})
    dataset = load_dataset("image_folder", root=root, seed=0, validation=8)
    assert len(dataset.validation) == 8
    assert dataset.notes == (f"{root}/valid is not read, because validation=8 is given",)


def test_unusable_validation_images_are_reported(write_folder: WriteFolder) -> None:
    write_folder("train", {"a": 20, "b": 30})
    root = write_folder("valid", {"a": 5, "b": 5})
    (root / "valid" / "b" / "002.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"valid/b/002.png: not a readable image"):
        load_dataset("image_folder", root=root, seed=0)
    dataset = load_dataset("image_folder", root=root, seed=0, on_bad_sample="skip")
    assert dataset.validation.labels.tolist() == [0] * 5 + [1] * 4


def test_folders_beside_the_splits_are_named(write_folder: WriteFolder) -> None:
    write_folder("train", {"a": 20, "b": 20})
    root = write_folder("unlabelled", {"x": 3})
    dataset = load_dataset("image_folder", root=root, seed=0)
    assert dataset.notes == (f"{root}/unlabelled is none of the splits, and is not read",)


def test_a_class_called_train(write_folder: WriteFolder) -> None:
    root = write_folder("", {"bus": 20, "train": 20, "test": 20})
    assert load_dataset("image_folder", root=root, seed=0).classes == ("bus", "test", "train")


def test_splits_that_cannot_be_used(write_folder: WriteFolder) -> None:
    root = write_folder("Test", {"a": 3, "b": 3})
    with pytest.raises(FileNotFoundError, match="has a folder 'Test', and none of training images"):
        load_dataset("image_folder", root=root, seed=0)
    write_folder("train", {"a": 3, "b": 3})
    write_folder("Training", {"a": 3, "b": 3})
    with pytest.raises(ValueError, match="'Training' and 'train', which are both the train split"):
        load_dataset("image_folder", root=root, seed=0)


def test_classes_that_contain_only_folders_are_pointed_out(write_folder: WriteFolder) -> None:
    write_folder("indoor", {"cat": 20, "dog": 20})
    root = write_folder("outdoor", {"cat": 20, "dog": 20})
    dataset = load_dataset("image_folder", root=root, seed=0)
    assert dataset.notes == (
        f"{root}: 2 of 2 class folders contain only folders (indoor contains cat, dog); their "
        "names are not used, so check that the classes are the outer ones",
    )


def test_one_class_is_not_enough(write_folder: WriteFolder) -> None:
    root = write_folder("", {"a": 3})
    with pytest.raises(ValueError, match=r"root=\S+ has images of 'a' only; two classes"):
        load_dataset("image_folder", root=root, seed=0)


def test_an_empty_root(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\S+ has no folder of images"):
        load_dataset("image_folder", root=tmp_path, seed=0)


def test_a_folder_without_images_is_left_out(write_folder: WriteFolder) -> None:
    root = write_folder("", {"a": 20, "b": 0, "c": 20})
    dataset = load_dataset("image_folder", root=root, seed=0)
    assert dataset.classes == ("a", "c")
    assert dataset.notes == (f"{root / 'b'} has no image and is left out",)


def test_a_class_of_the_test_tree_only(write_folder: WriteFolder) -> None:
    write_folder("train", {"a": 3, "b": 3})
    root = write_folder("test", {"a": 3, "c": 3})
    with pytest.raises(
        ValueError, match=r"/test has class 'c', which the training images have not; known: a, b"
    ):
        load_dataset("image_folder", root=root, seed=0)


def test_corrupt_image(write_folder: WriteFolder) -> None:
    root = write_folder("", {"a": 10, "b": 10})
    (root / "b" / "004.png").write_bytes(b"broken")
    with pytest.raises(ValueError, match=r"b/004.png: not a readable image"):
        load_dataset("image_folder", root=root, seed=0)


def test_a_rare_class(write_folder: WriteFolder) -> None:
    root = write_folder("", {"a": 10, "b": 1})
    with pytest.raises(ValueError, match="class 'b' has only one sample; three are needed"):
        load_dataset("image_folder", root=root, seed=0)


def test_imagenet_needs_both_folders_and_enough_memory(
    imagenet_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 1000)  # a machine with one megabyte of memory
    with pytest.raises(ValueError, match=r"63 images of 224 x 224 pixels take .* smaller image_si"):
        load_dataset("imagenet", root=imagenet_root, storage="memory", seed=0)
    shutil.rmtree(imagenet_root / "val")
    with pytest.raises(FileNotFoundError, match="has no folder 'val'"):
        load_dataset("imagenet", root=imagenet_root, seed=0)


def test_imagenet_has_the_images_of_published_lists(imagenet_root: Path) -> None:
    lines = [
        f"train/n0{c}/{i:03}.png {c - 1}" for c, count in ((1, 9), (2, 5)) for i in range(count)
    ]
    held = [f"train/n0{c}/{i:03}.png {c - 1}" for c in (1, 2) for i in (14, 15)]
    for name, each in (("train", lines), ("val", held)):
        (imagenet_root / f"{name}.txt").write_text("\n".join(each) + "\n")
    lists = {
        "train_list": imagenet_root / "train.txt",
        "validation_list": imagenet_root / "val.txt",
    }
    options = {"root": imagenet_root, "image_size": 8, "seed": 0}
    dataset = load_dataset("imagenet", **options, **lists)
    assert np.bincount(dataset.train.labels).tolist() == [9, 5]
    assert np.bincount(dataset.validation.labels).tolist() == [2, 2]
    assert len(dataset.test) == 13
    whole = load_dataset("imagenet", **options, validation=2)
    found = {row.tobytes() for row in np.concatenate([whole.train.inputs, whole.validation.inputs])}
    assert {row.tobytes() for row in dataset.train.inputs} < found
    with pytest.raises(ValueError, match="validation_list needs train_list"):
        load_dataset("imagenet", **options, validation_list=lists["validation_list"])
    (imagenet_root / "val.txt").write_text("train/n03/000.png 2\n")
    with pytest.raises(ValueError, match=r"has class 'n03', which the training images have not"):
        load_dataset("imagenet", **options, **lists)


@pytest.mark.parametrize("per_class", [3, None])
def test_validation_images_per_class_are_drawn_before_the_tail_is_thinned(
    imagenet_root: Path, per_class: int | None
) -> None:
    dataset = load_dataset(
        *("imagenet",),
        root=imagenet_root,
        image_size=8,
        imbalance=0.2,
        validation=6,
        seed=0,
        validation_per_class=per_class,
    )
    counts = [np.bincount(each.labels).tolist() for each in (dataset.train, dataset.validation)]
    assert counts == ([[17, 5], [3, 3]] if per_class else [[15, 5], [5, 1]])
    with pytest.raises(ValueError, match="leaves none of the 20 samples of a class for training"):
        load_dataset("imagenet", root=imagenet_root, image_size=8, validation_per_class=20, seed=0)


@pytest.mark.parametrize("storage", ["memory", "stream"])
def test_most_images_decide_the_size(write_folder: WriteFolder, storage: str) -> None:
    root = write_folder("", {"a": 20, "b": 20})
    with Image.open(root / "a" / "000.png") as image:
        image.resize((30, 31)).save(root / "a" / "000.png")
    (root / "b" / "003.png").write_bytes(b"no image")
    options = {"root": root, "seed": 0, "storage": storage, "cache": root / ".cache"}
    for _ in range(2):  # the second time, from the cache
        dataset = load_dataset("image_folder", on_bad_sample="skip", **options)
        assert dataset.input_shape == (1, 9, 8)
        assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == 38
        assert "a/000.png: 31x30 pixels, while other images have 9x8" in dataset.notes[0]
        assert dataset.train.rows(slice(2)).shape == (2, 1, 9, 8)
    with pytest.raises(ValueError, match=r"^2 of 40 samples cannot be used"):
        load_dataset("image_folder", **options)


def test_unreadable_images_are_skipped_on_request(write_folder: WriteFolder) -> None:
    root = write_folder("", {"a": 20, "b": 20})
    (root / "a" / "007.png").write_bytes(b"no image")
    dataset = load_dataset("image_folder", root=root, seed=0, on_bad_sample="skip")
    assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == 39
    assert f"{root}/a/007.png: not a readable image" in dataset.notes[0]


@pytest.mark.parametrize("storage", ["memory", "stream"])
def test_twelve_bits_in_sixteen_are_refused(
    write_folder: WriteFolder, tmp_path: Path, storage: str
) -> None:
    root = write_folder("", {"a": 20, "b": 20})
    options = {"root": root, "seed": 0, "storage": storage, "cache": tmp_path / ".cache"}

    def write(scale: int) -> None:
        values = np.random.default_rng(0).integers(0, 4096, (40, 9, 8)) * scale
        values[0, 0, 0] = 4095 * scale
        for file, image in zip(sorted(root.glob("[ab]/*.png")), values, strict=True):
            Image.fromarray(image.astype(np.uint16)).save(file)

    write(1)
    with pytest.raises(
        ValueError, match=r"a/000.png: 16 bits .* up to 4095; .* 16 levels .* by 16"
    ):
        load_dataset("image_folder", **options)
    write(16)
    dataset = load_dataset("image_folder", **options)
    assert len(np.unique(dataset.train.rows(slice(None)))) > 200
