"""On Ray, processes of trials are ended, and mended code is read by new ones."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from sweeps.service.controls import drop_trials, retry_trials
from sweeps.service.running import run_sweep
from sweeps.store.sweep_store import SweepStore
from tests.builders import make_sweep

LOSS = """
import time
from pathlib import Path
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

HERE = Path({folder!r})

class Own(CalibrationLoss):
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        self.alpha = alpha
    def compute(self, logits, targets, indices, features):
        if self.alpha == 1:
            raise KeyError("a bug")
        while self.alpha == 2:
            (HERE / "hangs").touch()
            time.sleep(0.1)
        while (HERE / "hold").exists():
            time.sleep(0.1)
        return cross_entropy(logits, targets)
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_hanging_trial_is_dropped_and_a_failed_one_runs_with_mended_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_session: None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "mended_loss.py"
    module.write_text(LOSS.format(folder=str(tmp_path)))
    (tmp_path / "hold").touch()
    sweep = make_sweep(
        losses=[{"name": "mended_loss:Own", "space": {"alpha": {"choices": [1, 2, 3]}}}],
        training={"epochs": 1},
        search={"trials": 4, "sampler": "random"},
        selection={"finalists": 0},
        scaling={"max_concurrent": 2},
        reference="none",
    )
    storage, done = str(tmp_path / "store"), []
    store = SweepStore(storage, "small")

    def wait(what: Callable[[], bool]) -> None:
        until = time.monotonic() + 240
        while not what():
            assert time.monotonic() < until
            time.sleep(0.1)

    def alpha(number: float) -> int:
        found = [r for r in store.load_records() if r.hyperparameters.get("alpha") == number]
        return found[0].number if found else -1

    def failed() -> bool:
        return any(r.state == "failed" and not r.dropped for r in store.load_records())

    def act() -> None:
        wait((tmp_path / "hangs").exists)
        drop_trials("small", storage, [alpha(2)])
        wait(failed)
        text = LOSS.format(folder=str(tmp_path)).replace('raise KeyError("a bug")', "pass")
        module.write_text(text)
        retry_trials("small", storage, None)
        (tmp_path / "hold").unlink()
        done.append(True)

    thread = threading.Thread(target=act)
    thread.start()
    ended = run_sweep(sweep, storage, console=Console(quiet=True))
    thread.join()
    assert done
    states = {r.hyperparameters.get("alpha"): r.state for r in ended.records}
    assert states == {None: "finished", 1: "finished", 2: "failed", 3: "finished"}
    (warning,) = [each for each in ended.result.warnings if "the same code" in each]
    assert "mended_loss.py has changed" in warning
