"""Small datasets in the original formats."""

import io
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.harness.torchvision_files import write_fashion_mnist
from tests.harness.voc import write_voc

Pixels = npt.NDArray[np.uint8]

SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"real data is not at {SHARED}")
    return SHARED


def pixels(count: int, *shape: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def encode(image: Pixels, form: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, form)
    return file.getvalue()


@pytest.fixture
def fashion_root(tmp_path: Path) -> Path:
    write_fashion_mnist(tmp_path)
    return tmp_path


def _write_cifar(folder: Path, files: dict[str, int], key: str, num_classes: int) -> None:
    folder.mkdir()
    for name, count in files.items():
        labels = (np.arange(count) % num_classes).tolist()
        content = {"data": pixels(count, 3072, seed=count), key: labels}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))


@pytest.fixture
def cifar_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small versions of both CIFAR datasets, with torchvision's checksums disabled."""
    from torchvision.datasets import CIFAR10, CIFAR100

    batches = {f"data_batch_{index}": 20 + index for index in range(1, 6)}
    _write_cifar(tmp_path / "cifar-10-batches-py", {**batches, "test_batch": 20}, "labels", 10)
    names = {"label_names": [f"ten_{index}" for index in range(10)]}
    (tmp_path / "cifar-10-batches-py" / "batches.meta").write_bytes(pickle.dumps(names))
    files = {"train": 400, "test": 200}
    _write_cifar(tmp_path / "cifar-100-python", files, "fine_labels", 100)
    names = {"fine_label_names": [f"hundred_{index:02}" for index in range(100)]}
    (tmp_path / "cifar-100-python" / "meta").write_bytes(pickle.dumps(names))
    for source in (CIFAR10, CIFAR100):
        for part in ("train_list", "test_list"):
            monkeypatch.setattr(source, part, [[name, None] for name, _ in getattr(source, part)])
        monkeypatch.setattr(source, "meta", {**source.meta, "md5": None})
    return tmp_path


WriteParquet = Callable[..., Path]


@pytest.fixture
def write_parquet(tmp_path: Path) -> WriteParquet:
    def write(
        name: str,
        images: list[Any],
        labels: list[Any] | pa.Array,
        metadata: dict[str, str] | None = None,
        columns: tuple[str, str] = ("image", "label"),
    ) -> Path:
        table = pa.table(dict(zip(columns, (images, labels), strict=True)))
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=7)
        return path

    return write


@pytest.fixture
def png() -> Callable[[int], list[bytes]]:
    """Makes greyscale 6x5 images, each filled with its index."""

    def make(count: int) -> list[bytes]:
        return [encode(np.full((6, 5), index, np.uint8)) for index in range(count)]

    return make


@pytest.fixture
def parquet_pair(write_parquet: WriteParquet) -> dict[str, Path]:
    pair = {}
    for part, count in (("train", 40), ("test", 20)):
        images = [encode(image) for image in pixels(count, 12, 10, 3, seed=count)]
        labels = [("cat", "dog")[index % 2] for index in range(count)]
        pair[part] = write_parquet(f"{part}.parquet", images, labels)
    return pair


WriteFolder = Callable[..., Path]


@pytest.fixture
def write_folder(tmp_path: Path) -> WriteFolder:
    def write(place: str, counts: dict[str, int], *, size: tuple[int, int] = (9, 8)) -> Path:
        for seed, (name, count) in enumerate(counts.items()):
            (tmp_path / place / name).mkdir(parents=True)
            for index, image in enumerate(pixels(count, *size, seed=seed)):
                (tmp_path / place / name / f"{index:03}.png").write_bytes(encode(image))
        return tmp_path

    return write


@pytest.fixture
def csv_table(tmp_path: Path) -> Path:
    lines = [f"{index},{index % 7},{'ab'[index % 2]}" for index in range(90)]
    (tmp_path / "table.csv").write_text("\n".join(["x,y,label", *lines]))
    return tmp_path / "table.csv"


def converted(csv_file: Path, name: str) -> Path:
    """The same table in another form, as pandas writes it."""
    table, path = pd.read_csv(csv_file), csv_file.with_name(name)
    if name.endswith(".jsonl"):
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_feather(path)
    return path


@pytest.fixture
def signals(tmp_path: Path) -> Path:
    """``a.npz`` with x and y, and the same in ``x.npy`` and ``y.npy``."""
    inputs, labels = np.random.default_rng(0).normal(size=(90, 2, 7)), np.arange(90) % 3
    np.savez(tmp_path / "a.npz", x=inputs, y=labels)
    np.save(tmp_path / "x.npy", inputs)
    np.save(tmp_path / "y.npy", labels)
    return tmp_path


@pytest.fixture
def mnist_root(fashion_root: Path) -> Path:
    shutil.copytree(fashion_root / "FashionMNIST", fashion_root / "MNIST")
    return fashion_root


@pytest.fixture
def svhn_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SVHN as written by MATLAB, (32, 32, 3, N), with the label 10 for the digit 0."""
    from scipy.io import savemat
    from torchvision.datasets import SVHN

    for part, count in (("train", 60), ("test", 20)):
        images = pixels(count, 32, 32, 3, seed=count).transpose(1, 2, 3, 0)
        labels = np.arange(1, count + 1)[:, np.newaxis] % 10
        savemat(tmp_path / f"{part}_32x32.mat", {"X": images, "y": np.where(labels, labels, 10)})
    known = {part: [url, name, None] for part, (url, name, _) in SVHN.split_list.items()}
    monkeypatch.setattr(SVHN, "split_list", known)
    monkeypatch.setattr(SVHN, "_check_integrity", lambda self: True)
    return tmp_path


@pytest.fixture
def stl10_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """STL-10 with pixels in column-major order, and labels from 1."""
    from torchvision.datasets import STL10

    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    for part, count in (("train", 60), ("test", 20)):
        images = pixels(count, 3, 96, 96, seed=count)
        (folder / f"{part}_X.bin").write_bytes(images.transpose(0, 1, 3, 2).tobytes())
        (folder / f"{part}_y.bin").write_bytes((np.arange(count) % 10 + 1).astype(np.uint8))
    (folder / "class_names.txt").write_text("\n".join(f"thing {i}" for i in range(10)))
    monkeypatch.setattr(STL10, "_check_integrity", lambda self: True)
    return tmp_path


@pytest.fixture
def tiny_imagenet_root(tmp_path: Path) -> Path:
    """Two classes; one image is greyscale, like some of the real ones."""
    place = tmp_path / "tiny-imagenet-200"
    lines = []
    for number, code in enumerate(("n01", "n02")):
        (place / "train" / code / "images").mkdir(parents=True)
        for index, image in enumerate(pixels(30, 8, 8, 3, seed=number)):
            file = place / "train" / code / "images" / f"{code}_{index:02}.JPEG"
            file.write_bytes(encode(image[:, :, 0] if index == 3 else image, "JPEG"))
    (place / "val" / "images").mkdir(parents=True)
    for index, image in enumerate(pixels(10, 8, 8, 3, seed=9)):
        (place / "val" / "images" / f"val_{index}.JPEG").write_bytes(encode(image, "JPEG"))
        lines.append(f"val_{index}.JPEG\tn0{2 - index % 2}\t0\t0\t7\t7")
    (place / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    (place / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\tbullfrog\nn03\tother\n")
    return tmp_path


@pytest.fixture
def imagenet_root(write_folder: WriteFolder) -> Path:
    write_folder("train", {"n01": 20, "n02": 30}, size=(12, 9))
    return write_folder("val", {"n01": 6, "n02": 7}, size=(9, 11))


@pytest.fixture
def voc_root(tmp_path: Path) -> Path:
    return write_voc(tmp_path / "voc", 20, 6)


CASES: dict[str, Callable[[Callable[[str], Any]], dict[str, Any]]] = {
    "arrow": lambda get: {"train": converted(get("csv_table"), "table.feather")},
    "cifar10": lambda get: {"root": get("cifar_root"), "validation": 20},
    "cifar100": lambda get: {"root": get("cifar_root"), "validation": 0.25},
    "csv": lambda get: {"train": get("csv_table")},
    "digits": lambda get: {},
    "fashion_mnist": lambda get: {"root": get("fashion_root"), "validation": 10},
    "image_folder": lambda get: {"root": get("write_folder")("", {"cat": 20, "dog": 30})},
    "imagenet": lambda get: {"root": get("imagenet_root"), "image_size": 8, "validation": 10},
    "jsonl": lambda get: {"train": converted(get("csv_table"), "table.jsonl")},
    "mnist": lambda get: {"root": get("mnist_root"), "validation": 10},
    "npy": lambda get: {
        "train": get("signals") / "x.npy",
        "train_labels": get("signals") / "y.npy",
    },
    "npz": lambda get: {"train": get("signals") / "a.npz"},
    "parquet": lambda get: dict(get("parquet_pair")),
    "stl10": lambda get: {"root": get("stl10_root"), "validation": 20},
    "svhn": lambda get: {"root": get("svhn_root"), "validation": 20},
    "tiny_imagenet": lambda get: {"root": get("tiny_imagenet_root"), "validation": 10},
    "voc": lambda get: {"root": get("voc_root"), "image_size": 16, "classes": ("a", "b", "c")},
}
"""Options with which each dataset loads quickly; a new dataset needs a line here."""


@pytest.fixture
def dataset_case(request: pytest.FixtureRequest) -> Callable[[str], dict[str, Any]]:
    return lambda name: CASES[name](request.getfixturevalue)
