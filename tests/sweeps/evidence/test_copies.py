"""Test samples that equal training samples are judged apart."""

from pathlib import Path

import numpy as np
import pytest

from sweeps.evidence.copies import judge_copies
from sweeps.planning.data import load_data
from sweeps.service.ending import end_of
from sweeps.sweep_file.loading import parse_sweep
from tests.builders import Noted, queue_of
from tests.harness.trained import train_sweep
from trainables.files.rows import Rows


def rows_with(wrong: np.ndarray, groups: np.ndarray | None = None) -> Rows:
    labels = np.zeros(len(wrong), np.int64)
    return Rows(np.eye(2, dtype=np.float32)[wrong.astype(int)], labels, groups=groups)


def test_errors_on_copies_and_on_the_others() -> None:
    wrong = np.arange(400) % 2 == 0
    copies = np.where(np.arange(400) < 100, np.arange(400), -1)
    wrong[:100] = np.arange(100) % 5 == 0
    found = judge_copies(rows_with(wrong), copies)
    assert found is not None and found.mislead
    assert (found.count, found.samples, found.error) == (100, 400, 0.2)
    value, low, high = found.others
    assert value == 0.5 and low == pytest.approx(1 - high) and 0.43 < low < 0.45
    assert "100 of 400 test samples equal a training sample; the error of focal on these is" in (
        found.text("focal")
    )
    assert judge_copies(rows_with(wrong), np.full(400, -1)) is None
    alike = judge_copies(rows_with(np.arange(400) % 2 == 0), copies)
    assert alike is not None and not alike.mislead and "Copies" not in alike.text("focal")
    once = judge_copies(rows_with(wrong), np.where(copies >= 0, 3, -1))  # one content, many times
    assert once is not None and not once.mislead
    everything = judge_copies(rows_with(wrong), np.arange(400))
    assert everything is not None and everything.mislead
    assert "says nothing about new samples" in everything.text("focal")


def test_false_warnings_are_rare() -> None:
    draw, warned = np.random.default_rng(0), 0
    for _ in range(1000):
        wrong, count = draw.random(300) < draw.uniform(0.02, 0.5), draw.integers(5, 200)
        found = judge_copies(rows_with(wrong), np.where(np.arange(300) < count, np.arange(300), -1))
        assert found is not None
        warned += found.mislead
    assert warned <= 25


@pytest.mark.parametrize("group", [None, "equal_rows"])
def test_copied_noise_is_a_warning_of_the_result(tmp_path: Path, group: str | None) -> None:
    draw = np.random.default_rng(0)
    noise, labels = draw.normal(size=(200, 8)).round(3), draw.integers(0, 2, 200)
    rows = [*(i % 60 for i in range(300)), *range(60, 200)]
    lines = [f"{','.join(map(str, noise[row]))},{labels[row]}" for row in rows]
    (tmp_path / "a.csv").write_text("\n".join([",".join("abcdefghy"), *lines]))
    sweep = parse_sweep(
        {
            "name": "noise",
            "dataset": {"name": "csv", "train": str(tmp_path / "a.csv"), "label": "y"}
            | ({"group": group} if group else {}),
            "model": {"name": "table_mlp", "width": 64},
            "losses": ["focal"],
            "selection": {"finalists": 0, "seeds": 0},
            "training": {"epochs": 25, "lr": 0.01, "batch_size": 32},
            "reference": "none",
        }
    )
    store = train_sweep(tmp_path / "store", sweep, [])
    found = end_of(queue_of(sweep, store), store, load_data(sweep), Noted([])).result.evidence
    warned = any("Copies make the test too easy" in each for each in found.warnings)
    assert warned == (group is None)
    assert any("equal a training sample in all" in each for each in found.on_data) == warned
