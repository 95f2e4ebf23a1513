"""Streamed images equal images in memory for all readers."""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from trainables.data import load_dataset
from trainables.data.core.base import Dataset
from trainables.data.readers.streamed import EncodedImages

Case = Callable[[str], dict[str, Any]]
WriteFolder = Callable[..., Path]


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def both(name: str, cache: Path, **options: Any) -> tuple[Dataset, Dataset]:
    in_memory = load_dataset(name, seed=0, storage="memory", **options)
    return in_memory, load_dataset(name, seed=0, storage="stream", cache=cache, **options)


@pytest.mark.parametrize("name", ["image_folder", "imagenet", "parquet", "tiny_imagenet"])
def test_the_same_data_as_in_memory(name: str, dataset_case: Case, cache: Path) -> None:
    in_memory, streamed = both(name, cache, **dataset_case(name))
    assert streamed.samples == in_memory.samples
    assert streamed.classes == in_memory.classes
    for part in ("train", "validation", "test"):
        there, here = getattr(streamed, part), getattr(in_memory, part)
        assert there.is_streamed
        assert there.inputs.shape == here.inputs.shape
        assert there.inputs.nbytes == here.inputs.nbytes
        np.testing.assert_array_equal(there.labels, here.labels)
        np.testing.assert_array_equal(there.rows(slice(None)), here.inputs)
        chosen = np.array([3, 0, 2])
        np.testing.assert_array_equal(there.rows(chosen), here.inputs[chosen])
    assert streamed.digest() == in_memory.digest()


def test_paths_in_a_table(write_folder: WriteFolder, cache: Path) -> None:
    root = write_folder("images", {"a": 20, "b": 20})
    files = sorted((root / "images").rglob("*.png"))
    lines = [f"{file.relative_to(root)},{file.parent.name}" for file in files]
    (root / "all.csv").write_text("\n".join(["image,label", *lines, "images/none.png,a"]))
    options = {"train": root / "all.csv", "image": "image", "on_bad_sample": "skip"}
    in_memory, streamed = both("csv", cache, **options)
    assert streamed.digest() == in_memory.digest()
    assert streamed.notes == in_memory.notes
    assert "image=images/none.png cannot be read" in streamed.notes[0]


def test_bad_images_are_reported_when_the_file_is_written_and_later(
    write_folder: WriteFolder, cache: Path
) -> None:
    root = write_folder("", {"a": 20, "b": 20})
    (root / "b" / "004.png").write_bytes(b"broken")
    shutil.copy(root / "a" / "000.png", root / "b" / "030.png")
    options = {"root": root, "storage": "stream", "cache": cache, "seed": 0}
    for _ in range(2):
        with pytest.raises(ValueError, match=r"b/004.png: not a readable image"):
            load_dataset("image_folder", **options)
        dataset = load_dataset("image_folder", on_bad_sample="skip", **options)
        assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == 40
        assert "1 of 41 samples are skipped" in dataset.notes[0]
    assert len(list(cache.iterdir())) == 1
    in_memory = load_dataset("image_folder", root=root, on_bad_sample="skip", seed=0)
    assert dataset.digest() == in_memory.digest()


def test_images_of_different_sizes(write_folder: WriteFolder, cache: Path) -> None:
    write_folder("train", {"a": 10, "b": 10}, size=(9, 12))
    root = write_folder("test", {"a": 3, "b": 3}, size=(7, 5))
    options = {"root": root, "storage": "stream", "cache": cache, "validation": 2, "seed": 0}
    with pytest.raises(
        ValueError, match=r"none of the 6 .*\n\S+a/000.png: 7x5 pixels, while other"
    ):
        load_dataset("image_folder", **options)
    assert load_dataset("image_folder", image_size=6, **options).input_shape == (1, 6, 6)


def test_grey_images_beside_coloured_ones(
    write_parquet: Any, png: Any, cache: Path, dataset_case: Case
) -> None:
    options = dataset_case("parquet")  # with colour images
    options["test"] = write_parquet("grey.parquet", png(4), ["cat", "dog"] * 2)
    in_memory, streamed = both("parquet", cache, image_size=6, **options)
    assert streamed.test.inputs.shape == (4, 3, 6, 6)
    assert streamed.digest() == in_memory.digest()


def test_a_changed_file_is_read_anew(dataset_case: Case, cache: Path) -> None:
    options = {**dataset_case("parquet"), "storage": "stream", "cache": cache, "seed": 0}
    before = load_dataset("parquet", **options)
    table = pq.read_table(options["train"])
    pq.write_table(table.take(list(range(len(table)))[::-1]), options["train"])
    after = load_dataset("parquet", **options)
    assert after.digest() != before.digest()
    assert len(list(cache.iterdir())) == 3  # the test part is unchanged


def test_the_encoded_bytes_are_written_once(
    dataset_case: Case, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**dataset_case("parquet"), "storage": "stream", "cache": cache, "seed": 0}
    before = load_dataset("parquet", **options)
    monkeypatch.setattr(
        "trainables.data.readers.streamed._write", lambda *_: pytest.fail("once more")
    )
    assert load_dataset("parquet", **options).digest() == before.digest()


@pytest.mark.parametrize(("memory", "streamed"), [(10**6, False), (10**4, True)])
def test_size_decides(
    memory: int,
    streamed: bool,
    dataset_case: Case,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """60 images of 12 x 10 pixels take 21,600 bytes."""
    monkeypatch.setattr("os.sysconf", lambda name: 1 if "SIZE" in name else memory)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    dataset = load_dataset("parquet", seed=0, **dataset_case("parquet"))
    assert dataset.train.is_streamed == streamed
    assert (cache / "calsweep").exists() == streamed


def test_what_would_not_fit_into_memory_is_refused(
    dataset_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 1 if "SIZE" in name else 10_000)
    with pytest.raises(ValueError, match=r"60 images of 10 x 12 pixels .* or storage to stream"):
        load_dataset("parquet", seed=0, storage="memory", **dataset_case("parquet"))


def test_a_folder_that_cannot_be_written(dataset_case: Case, cache: Path) -> None:
    (cache / "file").touch()
    with pytest.raises(ValueError, match=r"cache=\S+file cannot be written: .*; set cache to"):
        load_dataset(
            "parquet", seed=0, storage="stream", cache=cache / "file", **dataset_case("parquet")
        )
    assert list(cache.iterdir()) == [cache / "file"]


def test_failed_writes_leave_no_files(
    dataset_case: Case, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ValueError, match="No space left on device"):
        load_dataset("parquet", seed=0, storage="stream", cache=cache, **dataset_case("parquet"))
    assert not list(cache.iterdir())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "is damaged; delete it"),
        (lambda path: path.unlink(), "has no .* set the dataset's cache to a folder that all"),
    ],
)
def test_damaged_and_missing_files(
    damage: Callable[[Path], Any], message: str, dataset_case: Case, cache: Path
) -> None:
    options = {**dataset_case("parquet"), "storage": "stream", "cache": cache, "seed": 0}
    images = load_dataset("parquet", **options).test.inputs
    assert isinstance(images, EncodedImages)
    copy = Path(images.path).with_name("copy.arrow")  # the process has the original open
    shutil.copy(images.path, copy)
    damage(copy)
    elsewhere = EncodedImages(str(copy), images.rows, images.sample_shape, images.image_size)
    with pytest.raises(ValueError, match=message):
        elsewhere.read()


def test_images_are_not_pickled_for_trials(dataset_case: Case, cache: Path) -> None:
    dataset = load_dataset(
        "parquet", seed=0, storage="stream", cache=cache, image_size=300, **dataset_case("parquet")
    )
    data = pickle.dumps(dataset)
    assert len(data) < 10_000 < dataset.train.inputs.nbytes / 100
    np.testing.assert_array_equal(pickle.loads(data).test.rows(slice(2)), dataset.test.rows([0, 1]))


def test_other_samples_cannot_be_streamed(csv_table: Path) -> None:
    with pytest.raises(ValueError, match="storage belongs to images, while the rows are read as a"):
        load_dataset("csv", seed=0, train=csv_table, storage="stream")


def test_an_unreadable_file_is_a_bad_sample(write_folder: WriteFolder, cache: Path) -> None:
    root = write_folder("", {"a": 10, "b": 10})
    (root / "a" / "000.png").unlink()
    (root / "a" / "000.png").mkdir()
    with pytest.raises(ValueError, match=r"a/000.png: a/000.png cannot be read: Is a directory"):
        load_dataset("image_folder", seed=0, root=root, storage="stream", cache=cache)
    assert not os.listdir(cache) or os.listdir(cache)[0].startswith("images-")
