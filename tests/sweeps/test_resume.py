"""A sweep resumes with its original data and code, or reports differences."""

import sys
from pathlib import Path

import pytest
from rich.console import Console

from sweeps.errors import SweepInterruptedError, UserError
from sweeps.messages.formatting import escaped_markdown
from sweeps.service.reading.stored import StoredSweep
from sweeps.service.reading.writing import write_report
from sweeps.service.running import resume_sweep, run_sweep
from sweeps.store.identity import read_environment
from sweeps.store.sweep_store import SweepStore
from tests.builders import facts, make_sweep
from tests.harness.tracked import runs_of

OWN_LOSS = """
from pathlib import Path
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

class Own(CalibrationLoss):
    epoch = 0
    def on_epoch_end(self):
        self.epoch += 1
    def compute(self, logits, targets, indices, features):
        if self.epoch == 1 and Path("stop").exists():
            raise KeyboardInterrupt
        return cross_entropy(logits, targets)
"""
OWN_DATA = """
from pathlib import Path
from trainables.data import Dataset, load_dataset

def few_digits(*, seed) -> Dataset:
    return load_dataset("digits", seed=seed, train_samples=int(Path("samples").read_text()))
"""


@pytest.mark.slow
def test_other_data_are_refused_and_other_code_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_data.py").write_text(OWN_DATA)
    (tmp_path / "samples").write_text("200")
    sweep = make_sweep(
        dataset="own_data:few_digits",
        losses=["brier"],
        training={"epochs": 1},
        selection={"finalists": 0},
    )
    storage = str(tmp_path / "store")
    records = run_sweep(sweep, storage, debug=True, console=Console(quiet=True)).records
    assert records[0].state == "finished"
    environment = read_environment(SweepStore(storage, "small").folder)
    assert environment is not None

    (tmp_path / "samples").write_text("300")
    with pytest.raises(UserError, match=r"expected 200 train, .*; found 300 train, "):
        resume_sweep("small", storage, debug=True, console=Console(quiet=True))
    kept = SweepStore(storage, "small").load_records()
    assert [facts(record) for record in kept] == [facts(record) for record in records]

    (tmp_path / "samples").write_text("200")
    with (tmp_path / "own_data.py").open("a") as file:
        file.write("# other\n")
    with (tmp_path / "said").open("w") as said:
        resume_sweep("small", storage, debug=True, console=Console(file=said, width=300))
    read = (tmp_path / "said").read_text()
    assert "since sweep 'small' was started own_data.py has changed" in read
    assert "Starting the first trials" not in read  # all have finished
    assert "Comparing the selected setting" not in read  # its answer is stored
    assert "own_data.py has changed" in (tmp_path / "store/sweeps/small/driver.log").read_text()
    page = Path(write_report("small", storage, str(tmp_path / "page.html"))).read_text()
    assert environment["platform"] in page


@pytest.mark.slow
def test_trials_before_and_after_a_change_of_the_code_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_loss.py").write_text(OWN_LOSS)
    (tmp_path / "stop").touch()
    sweep = make_sweep(
        losses=["own_loss:Own"],
        training={"epochs": 2},
        search={"trials": 2},
        selection={"finalists": 1, "seeds": 1},
        reference="none",
    )
    storage, quiet = str(tmp_path / "store"), Console(quiet=True)
    with pytest.raises(SweepInterruptedError):
        run_sweep(sweep, storage, debug=True, console=quiet)
    (tmp_path / "stop").unlink()
    (tmp_path / "own_loss.py").write_text(OWN_LOSS + "# other\n")
    monkeypatch.delitem(sys.modules, "own_loss")
    ended = resume_sweep("small", storage, debug=True, console=quiet)
    (warning,) = [each for each in ended.result.warnings if "the same code" in each]
    assert "own_loss.py has changed (trials 0 to 1 before, trials 1 to 2 after, 1 with" in warning
    assert warning in StoredSweep.read("small", storage).result.warnings
    note = runs_of(Path(storage), "small")[""].data.tags["mlflow.note.content"]
    assert escaped_markdown(warning) in note
