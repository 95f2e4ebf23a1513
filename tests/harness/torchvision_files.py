"""Small datasets in the formats that torchvision reads."""

import struct
from pathlib import Path

import numpy as np


def write_fashion_mnist(root: Path) -> None:
    """40 training and 20 test images of noise, in ``root/FashionMNIST/raw``."""
    raw = root / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", 40), ("t10k", 20)):
        images = np.random.default_rng(count).integers(0, 256, (count, 28, 28), dtype=np.uint8)
        header = struct.pack(">iiii", 2051, count, 28, 28)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        labels = np.arange(count, dtype=np.uint8) % 10
        header = struct.pack(">ii", 2049, count)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())
