"""What searches hand out after equally many trainings."""

import math
from pathlib import Path

import pytest

from benchmarks.tabular import equal_trainings as equal
from benchmarks.tabular.regret import QUICKSTART
from trainables import metrics as M
from trainables.contract.setting import BASELINE

SWEEP = f"""
name: small
dataset: {{name: digits}}
model: {{name: mlp, width: 16}}
{QUICKSTART.replace("=", ": ")}
training: {{epochs: 2, batch_size: 256, lr: 0.05, augmentation: none}}
scheduler: {{grace_period: 1}}
"""


@pytest.fixture
def dataset(tmp_path: Path) -> equal.Dataset:
    file = tmp_path / "small.yaml"
    file.write_text(SWEEP)
    found = equal.Dataset(str(file), tmp_path / "trials")
    found.best = BASELINE  # of recorded trials, which this dataset lacks
    return found


@pytest.mark.slow
def test_all_trainings_count_and_are_not_repeated(
    dataset: equal.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the second run finds the row of the first
        equal.run(dataset, ["random"], trials=2, replays=1)
    file = dataset.folder / equal.RESULTS
    [row] = equal.read_rows(file)
    assert 2 + 3 <= row.trainings <= 2 + 3 + 3  # settings; seeds of the baseline and a finalist
    assert row.epochs == 2 * row.trainings
    assert row.kind in ("seeds", "baseline", "setting", "ensemble")
    assert math.isfinite(row.nll + row.ece + row.regret)
    equal.show([row])
    assert f"| small | 1 | {row.kind} × {row.networks} |" in capsys.readouterr().out


def test_predictions_are_those_of_the_new_split(dataset: equal.Dataset) -> None:
    splits = [equal.Split(dataset, number) for number in range(2)]
    first, second = (split.rows(BASELINE, 0, "test") for split in splits)
    assert (first.labels != second.labels).any()
    entry = splits[0].history(BASELINE, 0)[-1]
    logits, labels = first.tensors()
    assert entry["test_ece"] == pytest.approx(M.evaluate(logits, labels, ["ece"])["ece"])
