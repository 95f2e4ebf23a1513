import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainables.data import Dataset, load_dataset
from trainables.export.raw_samples import read_raw

WriteParquet = Callable[..., Path]
Pair = dict[str, Path]
Files = Callable[[int], list[bytes]]


def load(train: Path | str, test: Path | str, **options: Any) -> Dataset:
    return load_dataset("parquet", train=train, test=test, seed=0, **options)


def test_pixels_and_labels(write_parquet: WriteParquet, png: Files) -> None:
    files = png(30)
    train = write_parquet("train.parquet", files, [index % 3 for index in range(30)])
    dataset = load(train, train, validation=6)
    assert dataset.classes == ("0", "1", "2")
    assert dataset.input_shape == (1, 6, 5)
    # The test image in row r is filled with r; see png.
    np.testing.assert_array_equal(dataset.test.inputs[:, 0, 2, 2], np.arange(30))
    np.testing.assert_array_equal(dataset.test.labels, np.arange(30) % 3)
    np.testing.assert_array_equal(
        dataset.train.inputs[:, 0, 0, 0] % 3, dataset.train.labels.astype(np.uint8)
    )


def test_string_labels(parquet_pair: Pair) -> None:
    assert load(**parquet_pair).classes == ("cat", "dog")


def test_other_column_names(write_parquet: WriteParquet, png: Files) -> None:
    path = write_parquet("a.parquet", png(10), [0, 1] * 5, columns=("img", "fine_label"))
    dataset = load(path, path, image="img", label="fine_label", validation=2)
    assert len(dataset.test) == 10


@pytest.mark.parametrize(
    "labels",
    [
        pa.array(["b", "a"] * 5).dictionary_encode(),
        pa.array(["b", "a"] * 5, pa.large_string()),
        pa.array([1, 0] * 5, pa.uint8()),
        pa.array([1, 0] * 5, pa.int32()).dictionary_encode(),
    ],
    ids=lambda labels: str(labels.type),
)
def test_label_types(write_parquet: WriteParquet, png: Files, labels: pa.Array) -> None:
    path = write_parquet("a.parquet", png(10), labels)
    np.testing.assert_array_equal(load(path, path, validation=2).test.labels, [1, 0] * 5)


def test_structs_as_hugging_face_writes_them(write_parquet: WriteParquet, png: Files) -> None:
    images = [{"bytes": file, "path": f"{index}.png"} for index, file in enumerate(png(10))]
    features = {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}, "image": {}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    path = write_parquet("a.parquet", images, [0, 1] * 5, metadata)
    dataset = load(path, path, validation=2)
    assert dataset.classes == ("no", "yes")
    np.testing.assert_array_equal(dataset.test.inputs[:, 0, 0, 0], np.arange(10))


def class_label(*names: str) -> dict[str, str]:
    """The metadata that Hugging Face's `class_encode_column` and `to_parquet` write."""
    features = {"label": {"names": list(names), "_type": "ClassLabel"}}
    return {"huggingface": json.dumps({"info": {"features": features}})}


def test_codes_are_those_of_their_own_file(write_parquet: WriteParquet, png: Files) -> None:
    parts = Path("parts")
    train = write_parquet(
        parts / "a.parquet", png(9), [0, 1, 2] * 3, class_label("cat", "dog", "emu")
    )
    write_parquet(parts / "b.parquet", png(8), [0, 1] * 4, class_label("emu", "cat"))
    test = write_parquet("test.parquet", png(4), [0, 1, 1, 0], class_label("dog", "emu"))
    plain = write_parquet("plain.parquet", png(3), [2, 0, 1])
    dataset = load(train.parent, test, validation=3)
    assert dataset.classes == ("cat", "dog", "emu")
    assert dataset.test.labels.tolist() == [1, 2, 2, 1]
    both = np.concatenate([dataset.train.labels, dataset.validation.labels])
    assert np.bincount(both).tolist() == [3 + 4, 3, 3 + 4]
    assert load(train.parent, plain, validation=3).test.labels.tolist() == [2, 0, 1]


def test_codes_without_a_name_and_unknown_names(write_parquet: WriteParquet, png: Files) -> None:
    train = write_parquet("a.parquet", png(9), [0, 1, 2] * 3, class_label("cat", "dog", "emu"))
    test = write_parquet("test.parquet", png(4), [-1, 0, 1, 2], class_label("dog", "yak"))
    with pytest.raises(ValueError, match="3 of 4 samples") as caught:
        load(train, test, validation=3)
    message = str(caught.value)
    assert "label -1 must be at least 0 and below 2, the number of class names in" in message
    assert "label yak is not among the class names: cat, dog, emu" in message


def test_class_names_in_the_schema(write_parquet: WriteParquet, png: Files) -> None:
    path = write_parquet("a.parquet", png(10), [2, 0] * 5, {"classes": "x,y,z"})
    dataset = load(path, path, validation=2)
    assert dataset.classes == ("x", "y", "z")
    np.testing.assert_array_equal(dataset.test.labels, [2, 0] * 5)


def test_folders_and_uris(write_parquet: WriteParquet, png: Files) -> None:
    files = png(12)
    for part in range(3):
        rows = slice(4 * part, 4 * part + 4)
        write_parquet(f"parts/{part}.parquet", files[rows], [0, 1, 0, 1])
    folder = write_parquet("parts/deeper/3.parquet", files[:2], [0, 1]).parents[1]
    (folder / "notes.txt").write_text("no parquet")
    write_parquet("parts/.trash/4.parquet", files[:2], [0, 1])
    dataset = load(folder, folder.as_uri(), validation=2)
    assert len(dataset.test) == 14
    np.testing.assert_array_equal(dataset.test.inputs[:12, 0, 0, 0], np.arange(12))


def test_grey_and_colour_splits_meet_in_rgb(
    write_parquet: WriteParquet, parquet_pair: Pair, png: Files
) -> None:
    grey = write_parquet("grey.parquet", png(10), ["cat", "dog"] * 5)
    dataset = load(parquet_pair["train"], grey, image_size=5)
    assert dataset.test.inputs.shape == (10, 3, 5, 5)


def test_relative_paths(
    parquet_pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(load("train.parquet", "test.parquet").test) == 20


BadFile = Callable[[WriteParquet, list[bytes], Path], Path | str]

BAD_FILES: dict[str, tuple[BadFile, type[Exception], str]] = {
    "missing": (
        lambda write, files, path: path / "no.parquet",
        FileNotFoundError,
        r"train=\S+no.parquet does not exist",
    ),
    "unknown scheme": (
        lambda write, files, path: "ftq://somewhere/a.parquet",
        ValueError,
        r"train=ftq://somewhere/a.parquet: .*ftq",
    ),
    "empty folder": (
        lambda write, files, path: path,
        FileNotFoundError,
        r"train=\S+ is a folder without any .parquet file",
    ),
    "no rows": (
        lambda write, files, path: write(
            "a.parquet", pa.array([], pa.binary()), pa.array([], pa.int64())
        ),
        ValueError,
        r"train=\S+a.parquet has no rows",
    ),
    "no image column": (
        lambda write, files, path: write("a.parquet", files, [0, 1] * 5, columns=("img", "label")),
        ValueError,
        r"column 'img' holds binary; features must be .*; if these are images, set image: img",
    ),
    "no label column": (
        lambda write, files, path: write("a.parquet", files, [0] * 10, columns=("image", "labels")),
        ValueError,
        r"has no column 'label' \(option label\) \(did you mean 'labels'\?\); its columns",
    ),
    "text for images": (
        lambda write, files, path: write("a.parquet", ["a.png"] * 10, [0, 1] * 5),
        ValueError,
        r"row 9 \(from 0\): image=a.png cannot be read",
    ),
    "struct without bytes": (
        lambda write, files, path: write("a.parquet", [{"path": "a.png"}] * 10, [0, 1] * 5),
        ValueError,
        "column 'image' holds struct<.*; images must be",
    ),
    "fractional labels": (
        lambda write, files, path: write("a.parquet", files, [0.5, 1.0] * 5),
        ValueError,
        "column 'label' holds double; labels must be integers, words",
    ),
    "null label": (
        lambda write, files, path: write("a.parquet", files, [*[0, 1] * 4, None, 1]),
        ValueError,
        r"train=\S+a.parquet, row 8 \(from 0\): there is no label",
    ),
    "negative label": (
        lambda write, files, path: write("a.parquet", files, [*[0, 1] * 4, 0, -1]),
        ValueError,
        r"row 9 \(from 0\): label -1 must be at least 0",
    ),
    "null image": (
        lambda write, files, path: write("a.parquet", [*files[:9], None], [0, 1] * 5),
        ValueError,
        r"row 9 \(from 0\): there is no image",
    ),
    "struct with a null": (
        lambda write, files, path: write(
            "a.parquet", [{"bytes": file} for file in files[:8]] + [None] * 2, [0, 1] * 5
        ),
        ValueError,
        r"row 8 \(from 0\): there is no image",
    ),
    "struct with null bytes": (
        lambda write, files, path: write(
            "a.parquet", [{"bytes": file} for file in [*files[:9], None]], [0, 1] * 5
        ),
        ValueError,
        r"row 9 \(from 0\): there is no image",
    ),
    "one class": (
        lambda write, files, path: write("a.parquet", files, [3] * 10),
        ValueError,
        "all training labels are 3",
    ),
    "corrupt image": (
        lambda write, files, path: write(
            "a.parquet", [*files[:3], files[3][:50], *files[4:]], [0, 1] * 5
        ),
        ValueError,
        r"row 3 \(from 0\): not a readable image",
    ),
    "rare class": (
        lambda write, files, path: write("a.parquet", files, ["a"] * 9 + ["b"]),
        ValueError,
        "class 'b' has only one sample",
    ),
}


@pytest.mark.parametrize(("make", "error", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_training_files(
    make: BadFile,
    error: type[Exception],
    message: str,
    write_parquet: WriteParquet,
    png: Files,
    tmp_path: Path,
) -> None:
    path = make(write_parquet, png(10), tmp_path)
    with pytest.raises(error, match=message):
        load(path, path)


def test_not_parquet(tmp_path: Path, parquet_pair: Pair) -> None:
    (tmp_path / "a.parquet").write_text("label,image\n")
    with pytest.raises(ValueError, match=r"test=\S+a.parquet is not a Parquet file"):
        load(parquet_pair["train"], tmp_path / "a.parquet")


def test_rows_are_counted_within_the_file(write_parquet: WriteParquet, png: Files) -> None:
    write_parquet("parts/0.parquet", png(5), [0, 1, 0, 1, 0])
    folder = write_parquet("parts/1.parquet", png(3), [0, 1, -1]).parent
    with pytest.raises(ValueError, match=r"1.parquet, row 2 \(from 0\): label -1"):
        load(folder, folder)


def test_files_of_a_folder_must_agree(write_parquet: WriteParquet, png: Files) -> None:
    write_parquet("parts/0.parquet", png(4), [0, 1, 0, 1])
    folder = write_parquet("parts/1.parquet", png(2), ["a", "b"]).parent
    message = r"1.parquet: column 'label' holds text, while in \S+0.parquet it holds number"
    with pytest.raises(ValueError, match=message):
        load(folder, folder)


def test_test_labels_must_occur_in_training(
    write_parquet: WriteParquet, parquet_pair: Pair, png: Files
) -> None:
    test = write_parquet("other.parquet", png(2), ["cat", "cow"])
    with pytest.raises(ValueError, match=r"test=\S+ row 1 .*: label cow does not occur in train"):
        load(parquet_pair["train"], test)


def test_real_jpegs(shared_data: Path) -> None:
    path = shared_data / "cifar10" / "test.parquet"
    dataset = load(path, path, validation=1000)
    assert dataset.input_shape == (3, 32, 32)
    assert dataset.classes[:3] == ("airplane", "automobile", "bird")
    np.testing.assert_array_equal(np.bincount(dataset.validation.labels), np.full(10, 100))
    np.testing.assert_array_equal(dataset.test.labels, pq.read_table(path)["label"].to_numpy())
    # The usual constants of the CIFAR-10 training images; these are the test images, as JPEG.
    assert dataset.samples.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=5e-3)
    assert dataset.samples.std == pytest.approx((0.2470, 0.2435, 0.2616), abs=5e-3)


def test_names_and_codes_of_classes_fit_each_other(write_parquet: WriteParquet, png: Files) -> None:
    words, codes = ["dog", "cat"] * 5, [1, 0] * 5
    named = write_parquet("a.parquet", png(10), codes, {"classes": "cat,dog"})
    plain = write_parquet("b.parquet", png(10), words)
    for train, test in ((named, plain), (plain, named)):
        dataset = load(train, test, validation=2)
        assert dataset.classes == ("cat", "dog")
        np.testing.assert_array_equal(dataset.test.labels, codes)


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.float32(), 4)])
def test_a_list_column_holds_embeddings(tmp_path: Path, kind: pa.DataType) -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    path = tmp_path / "rows.parquet"
    fixed = pa.types.is_fixed_size_list(kind)  # of which Arrow cannot read a missing one
    rows = [*vectors[:39].tolist(), [1.0, None, 0.0, 0.0] if fixed else None]
    topics = ["ab"[i % 2] for i in range(40)]
    pq.write_table(
        pa.table({"vector": pa.array(rows, kind), "topic": topics, "more": topics}), path
    )
    options = {"train": path, "embedding": "vector", "label": "topic", "seed": 0}
    with pytest.raises(ValueError, match=r"row 39 .*vector has [04] numbers|a number of vector is"):
        load_dataset("parquet", **options)
    dataset = load_dataset("parquet", **options, on_bad_sample="skip")
    found = np.concatenate([s.inputs for s in (dataset.train, dataset.validation, dataset.test)])
    assert found.dtype == np.float32 and dataset.samples.default_model == "mlp"
    assert {row.tobytes() for row in found} == {row.tobytes() for row in vectors[:39]}
    read, names, _ = read_raw(dataset.samples, path, "vector", "skip")
    np.testing.assert_array_equal(read, vectors[:39])
    assert names == [str(row) for row in range(39)]


def test_what_is_no_embedding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    lists = [[1.0, 2.0]] * 9 + [[1.0]]
    table = pa.table({"vector": lists, "words": [["a"]] * 10, "topic": [0, 1] * 5})
    pq.write_table(table, path)
    for column, message in (
        ("vector", "row 9 .*vector has 1 numbers, while others have 2"),
        ("words", "column 'words' .*option embedding.* not lists of numbers"),
        ("topic", "not lists of numbers"),
        ("vectors", "has no column 'vectors'"),
    ):
        with pytest.raises(ValueError, match=message):
            load_dataset("parquet", train=path, embedding=column, label="topic", seed=0)
