"""A folder of predictions as a table: one row per network, rejected files with the reason."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.published import COLUMNS, main, table_of


def _write(file: Path, sharpness: float) -> None:
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(600, 4))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([generator.choice(4, p=row) for row in probs])
    np.savez(file, logits=sharpness * logits, labels=labels)


def test_the_temperature_of_each_network_undoes_its_sharpness(tmp_path: Path) -> None:
    _write(tmp_path / "a.npz", 1.0)
    _write(tmp_path / "b.npz", 3.0)
    rows, refused = table_of(tmp_path)
    assert [row[0] for row in rows] == ["a.npz", "b.npz"]
    first, second = (float(row[COLUMNS.index("temperature")]) for row in rows)
    assert second == pytest.approx(3 * first, rel=3e-2)  # not exactly, as T has a prior
    assert first == pytest.approx(1.0, abs=0.2)
    assert rows[1][COLUMNS.index("confidence − accuracy")].startswith("+")
    assert refused == []


def test_a_file_that_cannot_be_judged_is_named_and_the_others_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path / "good.npz", 1.0)
    np.savez(tmp_path / "bad.npz", probs=np.full((5, 2), 50.0), labels=np.zeros(5, dtype=int))
    assert main([str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "| good.npz |" in printed.out
    assert "bad.npz" not in printed.out
    assert "not judged: bad.npz: " in printed.err


def test_an_empty_folder_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no file could be judged" in capsys.readouterr().err
