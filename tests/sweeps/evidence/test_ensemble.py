"""The ensemble of a sweep: its members, its row and its comparisons."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sweeps.evidence.ensemble import judge_ensemble, select
from sweeps.evidence.prediction_sets import judge_sets
from sweeps.messages.formatting import finite
from sweeps.results.judgement import Judgement
from sweeps.search.ranking import Ranking
from sweeps.terminal.answers import leaderboard_table
from sweeps.terminal.console import plain_console
from tests.builders import baseline, finalist, ranked, trial
from trainables import metrics as M
from trainables.files.storage import Folder
from trainables.trials.outcome import write_predictions

SAMPLES = 1500


def predictions(number: int, split: str, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Predictions of a network: the truth of the split with independent noise."""
    shared = torch.Generator().manual_seed({"validation": 0, "test": 1}[split])
    truth = 2 * torch.randn(SAMPLES, 5, generator=shared)
    labels = torch.multinomial(truth.softmax(1), 1, generator=shared)[:, 0]
    own = torch.Generator().manual_seed(100 + number + 1000 * (split == "test"))
    return 2 * (truth + noise * torch.randn(truth.shape, generator=own)), labels


def sweep(folder: Path, seeds: int = 2) -> tuple[Ranking, Callable[[str, int], bytes]]:
    """Cross-entropy with fresh seeds, three focal settings, and one beyond the guard."""
    first = baseline(val_ece=0.05, val_error=0.3, val_nll_scaled=0.9, temperature=2.5)
    records = [first]
    records += [
        trial(n, "focal", {"gamma": n}, val_ece=0.04, val_error=0.3, val_nll_scaled=0.8 + 0.01 * n)
        for n in (1, 2, 3)
    ]
    records.append(trial(4, "focal", {"gamma": 4}, val_ece=0.01, val_error=0.9, val_nll_scaled=0.1))
    records += [
        finalist(4 + s, first, s, val_ece=0.05, val_error=0.3, val_nll_scaled=0.9, temperature=2.5)
        for s in range(1, seeds + 1)
    ]
    place = Folder(str(folder))
    for record in records:
        for split in ("validation", "test"):
            write_predictions(place / str(record.number), split, predictions(record.number, split))
    return ranked(records), lambda split, n: (place / str(n)).read(f"predictions_{split}.parquet")


def test_members_are_within_the_guard_and_it_is_better_than_each(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path)
    selected = select(ranking, read)
    assert selected is not None
    numbers = {each.number for each in selected.trials}
    assert 4 not in numbers
    assert 2 <= selected.networks == len(numbers) <= 5
    assert len(selected.trials) <= 5


def test_what_is_reported_of_it(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path, seeds=5)
    [found] = judge_ensemble(ranking, read)
    networks = found["networks"]
    by_split = [each["split"] for each in found["comparisons"]]
    assert by_split == ["test", "test", "validation", "validation"]
    for first, second in (found["comparisons"][:2], found["comparisons"][2:]):
        assert first["theirs"] == "the best of 6 seeds of cross_entropy + temperature scaling"
        assert first["verdict"] == "supported"
        rival = f"the mean of {networks} seeds of cross_entropy + temperature scaling"
        assert second["theirs"] == rival
        assert abs(second["value"]) < 0.5 * abs(first["value"])  # they are about equally good
    assert found["row"]["note"] == f"{networks} networks"
    assert f"each prediction costs {networks} networks" in found["why"][0]
    selected = select(ranking, read)
    assert selected is not None
    labels = predictions(0, "test")[1]
    logits = [predictions(each.number, "test")[0].double() for each in selected.pool.trials]
    expected = M.evaluate(selected.ensemble(logits), labels, ["ece", "error"])
    assert found["row"]["test_ece_scaled"] == pytest.approx(expected["ece"])
    assert found["row"]["test_error"] == pytest.approx(expected["error"])
    sizes = {row["method"]: row["size"] for row in found["sets"]}
    alone = {row["method"]: row["size"] for row in judge_sets(ranking, read)}
    assert list(sizes) == ["lac", "aps", "raps"]
    assert all(sizes[method] < alone[method] for method in sizes)
    assert found["sets"][0]["coverage"] == pytest.approx(0.9, abs=0.03)


def test_its_test_verdicts_are_corrected_for_other_sweeps(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path)
    [alone], [one_of_20] = judge_ensemble(ranking, read), judge_ensemble(ranking, read, 20)
    for once, often in zip(alone["comparisons"], one_of_20["comparisons"], strict=True):
        wider = often["high"] - often["low"] > once["high"] - once["low"]
        assert wider == (once["split"] == "test")
        assert often["corrected_for"] == (20 if once["split"] == "test" else None)


def test_its_row_survives_the_file_of_the_answer(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path)
    kept: dict[str, Any] = json.loads(json.dumps(finite(judge_ensemble(ranking, read)[0])))
    rows = Judgement(ensemble=kept).rows
    assert math.isnan(rows[0]["objective"])
    console = plain_console(width=100, recorded=True)
    console.print(leaderboard_table(rows, "val_ece"))
    assert "ensemble" in console.export_text()


def test_with_one_seed_of_cross_entropy_there_is_no_comparison_with_its_ensemble(
    tmp_path: Path,
) -> None:
    ranking, read = sweep(tmp_path, seeds=0)
    [found] = judge_ensemble(ranking, read)
    assert {each["theirs"] for each in found["comparisons"]} == {
        "cross_entropy + temperature scaling"
    }
    assert "trained with 1 seed" in found["why"][-1]


def test_no_ensemble_of_one_trial_or_of_several_decisions(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path)
    assert judge_ensemble(ranked([baseline(val_nll_scaled=0.9)]), read) == []
    place = Folder(str(tmp_path))
    write_predictions(place / "1", "validation", predictions(1, "validation"), decisions=2)
    assert judge_ensemble(ranking, read) == []
