"""Ray Tune as backend: processes that die, are reused or start late."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeps.service.course import EndedSweep
from tests.harness import small_sweeps
from tests.harness.recording_losses import RECORDING, recorded_processes
from tests.harness.small_sweeps import OWN_LOSSES, of
from tests.harness.workplace import workplace_of
from trainables.wrappers.one_process import TuneTrial

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> Iterator[Path]:
    """A folder with custom losses, in which the commands run."""
    folder = tmp_path_factory.mktemp("workplace")
    with workplace_of(folder, own_losses=OWN_LOSSES, recording=RECORDING):
        yield folder


def run(folder: Path, name: str, **sections: Any) -> EndedSweep:
    return small_sweeps.run(folder, name, debug=False, **sections)


@pytest.fixture(scope="module")
def mortal(workplace: Path) -> EndedSweep:
    """Trials that lose their process or device once."""
    once = [
        {"name": f"own_losses:{name}", "space": {"alpha": {"choices": [1.0]}}}
        for name in ("Mortal", "Asserting")
    ]
    return run(
        workplace,
        "mortal",
        losses=once,
        search={"trials": 3},
        scheduler={"name": "none"},
        training={"epochs": 4, "batch_size": 64, "lr": 0.05},
        selection={"finalists": 0},
    )


def test_a_trial_whose_process_dies_continues_from_its_checkpoint(
    workplace: Path, mortal: EndedSweep
) -> None:
    assert (workplace / "died").exists()
    record = of(mortal, "Mortal")
    assert record.state == "finished"
    assert [entry["epoch"] for entry in record.history] == [1, 2, 3, 4]


def test_a_trial_whose_accelerator_fails_continues_in_another_process(
    workplace: Path, mortal: EndedSweep
) -> None:
    assert (workplace / "broken").exists()
    record = of(mortal, "Asserting")
    assert record.state == "finished"
    assert [entry["epoch"] for entry in record.history] == [1, 2, 3, 4]
    log = (workplace / "store/sweeps/mortal/driver.log").read_text()
    assert "device-side assert triggered" in log


def test_finalists_reuse_the_processes_of_the_search(workplace: Path) -> None:
    """Including processes that were idle during the last trial of the search."""
    (workplace / "processes").unlink(missing_ok=True)
    alike = {"name": "recording:Waiting", "space": {"alpha": {"choices": [1.0, 2.0, 3.0]}}}
    result = run(
        workplace,
        "recording",
        losses=[alike],
        search={"trials": 4, "sampler": "tpe", "guard": 1.0},
        selection={"finalists": 3, "seeds": 2},
        scaling={"max_concurrent": 2},
    )
    finals = result.records[4:]
    assert {record.role for record in finals} == {"finalist"}
    own = sum(record.loss.startswith("recording:") for record in finals)
    processes = recorded_processes(workplace)
    assert len(processes) == 3 + own
    assert len(set(processes)) == len(set(processes[-own:])) == 2


def test_a_process_that_starts_late_gets_trials(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even though another process could run each trial first."""
    (workplace / "processes").unlink(missing_ok=True)
    first = workplace / "first"

    class Late(TuneTrial):
        def setup(self, config: dict[str, Any], *data: Any, **known: Any) -> None:
            try:
                first.touch(exist_ok=False)
            except FileExistsError:
                time.sleep(1)  # longer than one trial, shorter than all
            super().setup(config, *data, **known)

    monkeypatch.setattr("trainables.wrappers.one_process.TuneTrial", Late)
    alike = {"name": "recording:Recording", "space": {"alpha": {"low": 1.0, "high": 2.0}}}
    run(
        workplace,
        "late",
        losses=[alike],
        training={"epochs": 1},
        search={"trials": 16, "sampler": "random"},
        scaling={"max_concurrent": 2},
    )
    assert len(set(recorded_processes(workplace))) == 2
