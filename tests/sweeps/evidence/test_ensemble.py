"""The ensemble of a sweep: its members, its row and its comparisons."""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from sweeps.evidence.ensemble import judge_ensemble, select, select_seeds
from sweeps.evidence.prediction_sets import judge_sets
from sweeps.messages.formatting import finite
from sweeps.results.documents import from_document, to_document
from sweeps.results.evidence import EnsembleEvidence, Evidence
from sweeps.search.ranking import Ranking
from sweeps.terminal.answers import leaderboard_table
from sweeps.terminal.console import plain_console
from tests.builders import baseline, finalist, ranked, trial, write_predictions
from trainables import metrics as M
from trainables.files.rows import ReadRows, Rows
from trainables.files.storage import Folder

SAMPLES = 1500


def predictions(number: int, split: str, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Predictions of a network: the truth of the split with independent noise."""
    shared = torch.Generator().manual_seed({"validation": 0, "test": 1}[split])
    truth = 2 * torch.randn(SAMPLES, 5, generator=shared)
    labels = torch.multinomial(truth.softmax(1), 1, generator=shared)[:, 0]
    own = torch.Generator().manual_seed(100 + number + 1000 * (split == "test"))
    return 2 * (truth + noise * torch.randn(truth.shape, generator=own)), labels


def sweep(folder: Path, seeds: int = 2, noise: float = 1.0) -> tuple[Ranking, ReadRows]:
    """Cross-entropy with fresh seeds, three focal settings, and one beyond the guard.

    All networks are identical in law, except that focal has this much noise.
    """
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
            own = noise if record.loss == "focal" else 1.0
            drawn = predictions(record.number, split, own)
            write_predictions(place / str(record.number), split, drawn)
    return ranked(records), lambda split, n: Rows.read(place / str(n), split)


@pytest.mark.parametrize(("seeds", "most"), [(0, 4), (2, 3), (3, 4), (5, 5)])
def test_it_has_at_most_as_many_networks_as_cross_entropy_has_seeds(
    seeds: int, most: int, tmp_path: Path
) -> None:
    """With fewer than three seeds it cannot be compared with equally many, and has up to five."""
    ranking, read = sweep(tmp_path, seeds)
    selected = select(ranking, read)
    assert selected is not None
    numbers = {each.number for each in selected.trials}
    assert 4 not in numbers  # beyond the guard
    assert 3 <= selected.networks == len(numbers) <= most


def test_networks_limits_the_cost_of_a_prediction(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path, 5)
    limited = Ranking(ranking.records, replace(ranking.rule, networks=3))
    selected = select(limited, read)
    assert selected is not None
    assert selected.networks == 3


@pytest.mark.parametrize(
    ("noise", "verdict", "offered"),
    [(1.0, "not supported", "seeds"), (0.3, "supported", "ensemble")],
)
def test_it_is_decided_against_equally_many_seeds_of_cross_entropy(
    noise: float, verdict: str, offered: str, tmp_path: Path
) -> None:
    """Several networks always beat the best one, also if all are identical in law."""
    ranking, read = sweep(tmp_path, 4, noise)
    [found] = judge_ensemble(ranking, read)
    networks = found.networks
    on_test, on_validation = found.comparisons
    assert (on_test.split, on_validation.split) == ("test", "validation")
    rival = f"the mean of {networks} seeds of cross_entropy + scaling"
    assert {str(on_test.theirs), str(on_validation.theirs)} == {rival}
    assert (on_test.verdict, found.offered) == (verdict, offered)
    assert f"each prediction costs {networks} networks" in found.why[0]
    ece = found.row.value("test_ece_scaled")
    assert f"Its ECE is {ece:.4f}, theirs" in found.why[1]
    if offered == "ensemble":
        assert found.advice.startswith("For the lowest NLL export the ensemble of")
        assert f"its ECE is {ece:.4f}, and a prediction costs that many" in found.advice
    else:
        assert f"average {networks} seeds of cross-entropy" in found.advice


def test_what_is_reported_of_both(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path, seeds=4)
    [found] = judge_ensemble(ranking, read)
    ours, seeds = select(ranking, read), select_seeds(ranking, read)
    labels = predictions(0, "test")[1]
    assert ours is not None
    assert seeds is not None
    assert [each.number for each in seeds.trials] == [0, 5, 6, 7, 8]
    assert found.seeds.row.loss == "cross_entropy × 5"
    for selected, facts in ((ours, found), (seeds, found.seeds)):
        logits = [predictions(each.number, "test")[0].double() for each in selected.pool.trials]
        expected = M.evaluate(selected.ensemble(logits), labels, ["ece", "error"])
        assert facts.row.note == f"{selected.networks} networks"
        assert facts.row.value("test_ece_scaled") == pytest.approx(expected["ece"])
        assert facts.row.value("test_error") == pytest.approx(expected["error"])
        sizes = {row.method: row.size for row in facts.sets}
        alone = {row.method: row.size for row in judge_sets(ranking, read)}
        assert list(sizes) == ["lac", "aps", "raps"]
        assert all(sizes[method] < alone[method] for method in sizes)
        first = facts.sets[0]
        assert first.coverage == pytest.approx(0.9, abs=0.03)
        assert first.low < first.coverage < first.high
    evidence = Evidence(ensemble=found)
    assert [each.row.loss for each in evidence.ensembles] == ["ensemble", "cross_entropy × 5"]
    assert len(evidence.all_sets) == 6


def test_prediction_sets_are_measured_by_groups(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path)

    def grouped(split: str, number: int, groups: int = 5) -> Rows:
        rows = read(split, number)
        return replace(rows, groups=np.arange(len(rows.labels)) % groups)

    for sets in (judge_sets(ranking, grouped), judge_ensemble(ranking, grouped)[0].sets):
        assert len(sets) >= 3
        assert all(not each.has_interval for each in sets)  # there are too few groups
    assert all(each.has_interval for each in judge_sets(ranking, partial(grouped, groups=50)))


def test_its_test_verdicts_are_corrected_for_other_sweeps(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path)
    [alone], [one_of_20] = judge_ensemble(ranking, read), judge_ensemble(ranking, read, 20)
    for once, often in zip(alone.comparisons, one_of_20.comparisons, strict=True):
        wider = often.high - often.low > once.high - once.low
        assert wider == (once.split == "test")
        assert often.corrected_for == (20 if once.split == "test" else None)


def test_its_row_survives_the_file_of_the_answer(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path)
    [found] = judge_ensemble(ranking, read)
    kept = from_document(EnsembleEvidence, json.loads(json.dumps(finite(to_document(found)))))
    assert (kept.trials, kept.comparisons, kept.sets) == (
        found.trials,
        found.comparisons,
        found.sets,
    )
    rows = [each.row for each in Evidence(ensemble=kept).ensembles]
    assert math.isnan(rows[0].value("objective"))
    console = plain_console(width=100, recorded=True)
    console.print(leaderboard_table(rows, "val_ece"))
    assert "ensemble" in console.export_text()


@pytest.mark.parametrize("seeds", [0, 1])
def test_with_too_few_seeds_of_cross_entropy_nothing_is_decided(seeds: int, tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path, seeds)
    [found] = judge_ensemble(ranking, read)
    assert found.comparisons == ()
    assert (found.advice, found.offered) == ("", "ensemble")
    count = "1 seed" if seeds == 0 else "2 seeds"
    assert "seeds of cross-entropy is not decided" in found.why[-1]
    assert f"cross-entropy was trained with {count} (selection.baseline_seeds)" in found.why[-1]


def test_without_an_ensemble_the_seeds_of_cross_entropy_are_offered(tmp_path: Path) -> None:
    """One network is much better than all others, so it is no ensemble."""
    ranking, read = sweep(tmp_path, 4)
    place = Folder(str(tmp_path))
    for split in ("validation", "test"):
        write_predictions(place / "1", split, predictions(1, split, noise=0.01))
        for number in (0, 2, 3, 5, 6, 7, 8):
            write_predictions(place / str(number), split, predictions(number, split, noise=6.0))
    selected = select(ranking, read)
    assert selected is not None
    assert [each.number for each in selected.trials] == [1]
    [found] = judge_ensemble(ranking, read)
    assert (found.offered, found.seeds, found.comparisons) == ("seeds", None, ())
    assert found.row.loss == "cross_entropy × 5"
    assert found.advice.startswith("For a lower NLL average 5 seeds of cross-entropy")
    [named] = judge_ensemble(ranking, read, name="birds")
    assert "`calsweep export birds --ensemble`" in named.advice


def test_seeds_of_cross_entropy_are_not_compared_with_themselves(tmp_path: Path) -> None:
    """In another order of the networks, the difference is one of rounding, yet has a sign."""
    ranking, read = sweep(tmp_path, 4, noise=6.0)
    selected = select(ranking, read)
    assert selected is not None
    assert [each.number for each in selected.trials] == [0, 5, 6, 7, 8]
    [found] = judge_ensemble(ranking, read)
    assert (found.offered, found.seeds, found.comparisons) == ("seeds", None, ())
    assert found.row.loss == "cross_entropy × 5"


def test_no_ensemble_of_one_trial_or_of_several_decisions(tmp_path: Path) -> None:
    ranking, read = sweep(tmp_path)
    assert judge_ensemble(ranked([baseline(val_nll_scaled=0.9)]), read) == []
    place = Folder(str(tmp_path))
    for number in range(7):
        drawn = predictions(number, "validation")
        write_predictions(place / str(number), "validation", drawn, decisions=2)
    assert judge_ensemble(ranking, read) == []
