"""Training on streamed images: equal to images in memory, and larger than memory."""

import io
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from trainables.contract.config import TrainingConfig, TrialSetup
from trainables.contract.messages import COSTS, TrialConfig
from trainables.contract.setting import Setting
from trainables.data import load_dataset
from trainables.data.core.base import Dataset
from trainables.trials.trial import TrialRun

EPOCHS = 3
LIMIT = 48 * 2**20  # bytes; the measured peak is 27 to 38 MiB


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """120 photographs of different sizes, and the cache folder for streaming."""
    folder = tmp_path_factory.mktemp("birds")
    draw = np.random.default_rng(0)
    images = []
    for index in range(120):
        height, width = draw.integers(20, 40, 2)
        noise = draw.integers(0, 100, (height, width, 3)) + 60 * (index % 3)
        stream = io.BytesIO()
        Image.fromarray(noise.astype(np.uint8)).save(stream, "JPEG")
        images.append(stream.getvalue())
    pq.write_table(pa.table({"image": images, "label": np.arange(120) % 3}), folder / "a.parquet")
    return {"name": "parquet", "train": folder / "a.parquet", "image_size": 16, "seed": 0}


@pytest.fixture(scope="module")
def streamed(birds: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load_dataset(**birds, storage="stream", cache=tmp_path_factory.mktemp("cache"))


def start(dataset: Dataset, folder: Path) -> TrialRun:
    recipe = TrainingConfig(epochs=EPOCHS, batch_size=32, lr=0.05, augmentation="crop_flip")
    setup = TrialSetup(
        model="small_cnn",
        model_options={"width": 4, "dropout": 0.2},
        training=recipe,
        trials_uri=str(folder),
        outcome_epochs=(EPOCHS,),
    )
    return TrialRun(dataset, setup, TrialConfig(7, "search", Setting("focal", {}), seed=3))


def history(run: TrialRun) -> list[dict[str, float]]:
    for _ in range(EPOCHS):
        run.advance()
    return [{k: v for k, v in entry.items() if k not in COSTS} for entry in run.history]


def test_a_streamed_trial_equals_one_in_memory_also_after_an_interruption(
    birds: dict[str, Any], streamed: Dataset, tmp_path: Path
) -> None:
    expected = history(start(load_dataset(**birds, storage="memory"), tmp_path / "memory"))
    assert history(start(streamed, tmp_path / "whole")) == expected
    start(streamed, tmp_path / "cut").advance()
    assert history(start(streamed, tmp_path / "cut")) == expected


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_data_larger_than_memory_by_a_factor_of_20(tmp_path: Path) -> None:
    """A separate process with a memory limit reads, checks, trains and evaluates."""
    draw = np.random.default_rng(0)
    images = []
    for index in range(30):
        coarse = draw.integers(0, 100, (80, 80, 3)) + 60 * (index % 3)
        stream = io.BytesIO()
        Image.fromarray(coarse.astype(np.uint8)).resize((320, 320)).save(stream, "JPEG", quality=90)
        images.append(stream.getvalue())
    for name, count in (("small", 60), ("large", 3300)):
        repeated = {"image": images * (count // 30), "label": np.arange(count) % 3}
        pq.write_table(
            pa.table(repeated),
            tmp_path / f"{name}.parquet",
            use_dictionary=False,
            row_group_size=64,
        )
    assert 20 * LIMIT < 3300 * 320 * 320 * 3
    assert (tmp_path / "large.parquet").stat().st_size > LIMIT
    script = Path(__file__).with_name("limited_memory.py")
    cpus = sorted(os.sched_getaffinity(0))[:2]
    runs = {
        storage: subprocess.run(
            [sys.executable, str(script), str(tmp_path), storage, str(LIMIT)],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parents[3]),
                "ARROW_DEFAULT_MEMORY_POOL": "system",  # Arrow's default pool reserves a gibibyte
                "MALLOC_MMAP_THRESHOLD_": "65536",  # freed memory is returned to the system
            },
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=partial(os.sched_setaffinity, 0, cpus),  # each thread needs memory
        )
        for storage in ("memory", "stream")
    }
    assert "MemoryError" in runs["memory"].stderr
    assert runs["stream"].returncode == 0, runs["stream"].stderr
    assert float(runs["stream"].stdout) < 0.1
