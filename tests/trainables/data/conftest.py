"""Small datasets in the real formats."""

import io
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

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
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", 40), ("t10k", 20)):
        images = pixels(count, 28, 28, seed=count)
        header = struct.pack(">iiii", 2051, count, 28, 28)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        labels = np.arange(count, dtype=np.uint8) % 10
        header = struct.pack(">ii", 2049, count)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())
    return tmp_path


def _write_cifar(folder: Path, files: dict[str, int], key: str, num_classes: int) -> None:
    folder.mkdir()
    for name, count in files.items():
        labels = (np.arange(count) % num_classes).tolist()
        content = {"data": pixels(count, 3072, seed=count), key: labels}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))


@pytest.fixture
def cifar_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both CIFARs, small, with torchvision's checksums of the real files turned off."""
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
    """Makes grey 6x5 images, each filled with its index."""

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
def dataset_case(request: pytest.FixtureRequest) -> Callable[[str], dict[str, Any]]:
    """Options with which each dataset loads quickly; a new dataset needs a line here."""

    def case(name: str) -> dict[str, Any]:
        match name:
            case "digits":
                return {}
            case "fashion_mnist":
                return {"root": request.getfixturevalue("fashion_root"), "validation": 10}
            case "cifar10":
                return {"root": request.getfixturevalue("cifar_root"), "validation": 20}
            case "cifar100":
                return {"root": request.getfixturevalue("cifar_root"), "validation": 0.25}
            case "csv":
                lines = [f"{index},{index % 7},{'ab'[index % 2]}" for index in range(90)]
                path = request.getfixturevalue("tmp_path") / "table.csv"
                path.write_text("\n".join(["x,y,label", *lines]))
                return {"train": path}
            case "npz":
                path = request.getfixturevalue("tmp_path") / "signals.npz"
                signals = np.random.default_rng(0).normal(size=(90, 2, 7))
                np.savez(path, x=signals, y=np.arange(90) % 3)
                return {"train": path}
            case "npy":
                folder = request.getfixturevalue("tmp_path")
                np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(90, 5)))
                np.save(folder / "y.npy", np.arange(90) % 3)
                return {"train": folder / "x.npy", "train_labels": folder / "y.npy"}
            case "parquet":
                return dict(request.getfixturevalue("parquet_pair"))
            case "image_folder":
                root = request.getfixturevalue("write_folder")("", {"cat": 20, "dog": 30})
                return {"root": root}
        raise AssertionError(f"dataset {name!r} has no case here")

    return case
