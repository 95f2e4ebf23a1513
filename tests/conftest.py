"""Settings and fixtures of all tests."""

import atexit
import gc
import os
import re
import sys

# NumPy, SciPy and PyTorch read them when they are imported, here and in the processes that tests
# start. Further threads wait busily, which takes most of the processor time of fits with small
# matrices, as those of post-hoc methods.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from sweeps.cluster.ray_internals import LOCAL_SETTINGS
from tests.harness import ray_session as shared_session
from tests.harness.database import copy_instead, empty_database
from tests.harness.forks import share_server, use_shared_server

# Until all tests are collected: what is imported stays, and to search it for garbage takes seconds.
gc.disable()

# Tests start hundreds of processes: where Python may not keep its byte code, as in many containers,
# each would compile PyTorch, Ray and MLflow anew, which takes longer than all else it does.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Ray reads some of them when it is imported, as tests do before any sweep has set them: under
# `uv run pytest` its workers would get a second environment.
for name, value in LOCAL_SETTINGS.items():
    os.environ.setdefault(name, value)
# A call of Ray that would start it unnoticed, which takes seconds, fails.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")

# Several threads slow each other down on a small machine.
torch.set_num_threads(1)
settings.register_profile("calsweep", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("calsweep")

copy_instead(empty_database)

CHROMIUM = Path("/usr/bin/chromium")
HERE = Path(__file__).parent
HOST_FACING = (  # marked `host`: another version of a library may break these tests
    "calsweep",
    "sweeps/cluster",
    "sweeps/jobs",
    "sweeps/pages",
    "sweeps/search/test_optuna_internals.py",
    "sweeps/search/test_trial_queue.py",
    "sweeps/service",
    "sweeps/store/test_sweep_store.py",
    "sweeps/sweep_file/test_loading.py",
    "sweeps/terminal",
    "sweeps/test_command_line.py",
    "sweeps/tracking",
    "trainables/data/readers",
    "trainables/engine",
    "trainables/export",
    "trainables/files",
    "trainables/losses/test_golden.py",
    "trainables/metrics/test_golden.py",
    "trainables/models",
    "trainables/posthoc/test_posthoc.py",
    "trainables/runtime",
    "trainables/trials/test_trial.py",
    "trainables/wrappers",
)
LONGEST = (  # begin first, as other processes would wait for the end of a long file
    "sweeps/test_faults.py",
    "benchmarks/test_smallest_sizes.py",
    "sweeps/test_several_workers.py",
    "sweeps/jobs/test_jobs.py",
    "sweeps/test_own_loops.py",
    "sweeps/cluster/test_two_sweeps.py",
    "test_notebooks.py",
    "sweeps/test_kill_and_resume.py",
    "sweeps/service/test_backends.py",
    "trainables/test_simulated_gpu.py",
    "trainables/models/test_contract.py",
    "test_documents.py",
    "trainables/engine/test_streaming.py",
    "trainables/metrics/test_intervals.py",
    "trainables/trials/test_trial.py",
)


IN_TEXT = {  # of files with such tests
    "slow": re.compile(r"mark\.(slow|any_version)\b|are marked slow"),
    "alone": re.compile(r"mark\.alone\b"),
}


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        use_shared_server()
    elif config.getoption("numprocesses", None):
        share_server()
    gone = [name for name in (*HOST_FACING, *LONGEST) if not (HERE / name).exists()]
    if gone:
        raise pytest.UsageError(f"tests/conftest.py names what does not exist: {gone}")


@cache  # there are many tests in a file
def faces_a_host(path: Path) -> bool:
    return any(path.is_relative_to(HERE / name) for name in HOST_FACING)


@cache
def names(path: Path, marker: str) -> bool:
    return IN_TEXT[marker].search(path.read_text(encoding="utf-8")) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether no test of a file can be selected, so that its imports take no time."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    marker = config.option.markexpr.partition(" ")[0]
    if marker == "host" and not faces_a_host(collection_path):
        return True
    return True if marker in IN_TEXT and not names(collection_path, marker) else None


def pytest_collection_finish() -> None:
    gc.freeze()
    atexit.register(gc.unfreeze)  # otherwise Triton reports what it leaks
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {HERE / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))
    for item in items:
        if faces_a_host(item.path):
            item.add_marker("host")
        if item.get_closest_marker("any_version"):
            item.add_marker("slow")
        for marker in IN_TEXT:
            if item.get_closest_marker(marker) and not names(item.path, marker):
                raise pytest.UsageError(f"{item.path} does not name the marker {marker}")


@pytest.fixture(scope="module")
def ray_session() -> None:
    """Ray on this machine: one session for all tests of this process."""
    shared_session.start()


@pytest.fixture(scope="module")
def without_ray() -> None:
    """No Ray session, for tests that start it in their own way."""
    shared_session.end()


@pytest.fixture(scope="session", autouse=True)
def _ray_ends() -> Iterator[None]:
    yield
    shared_session.end()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a real browser."""
    if not CHROMIUM.exists():
        pytest.skip("there is no browser: apt-get install chromium")
    return str(CHROMIUM)
