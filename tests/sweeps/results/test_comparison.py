"""What the choice is worth: compared with cross-entropy, and with it after a temperature."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sweeps.results.comparison import Comparison, compare, in_words, verdict
from sweeps.search.record import TrialRecord
from tests.builders import baseline, finalist, ranked, trial
from trainables.outcome import write_predictions
from trainables.storage import Folder


def logits_of(factor: float, samples: int = 4000) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits too large by a factor, on the same samples whatever it is."""
    generator = torch.Generator().manual_seed(0)
    honest = 1.5 * torch.randn(samples, 5, generator=generator)
    labels = torch.multinomial(torch.softmax(honest, 1), 1, generator=generator)[:, 0]
    return factor * honest, labels


def sweep_of(ours: float, theirs: float) -> tuple[list[TrialRecord], dict[int, float]]:
    """A sweep whose finalists have logits too large by these factors, the same for all seeds."""
    first, other = baseline(val_ece=0.05), trial(1, val_ece=0.01)
    records = [first, other]
    records += [finalist(2 + seed, first, seed, val_ece=0.05) for seed in (1, 2)]
    records += [finalist(4 + seed, other, seed, val_ece=0.01) for seed in (1, 2)]
    return records, {3: theirs, 4: 1.02 * theirs, 5: ours, 6: 1.02 * ours}


def written(folder: Path, factors: dict[int, float]) -> Callable[[int], bytes]:
    """Writes the trials' predictions; what reads them again."""
    place = Folder(str(folder))
    for number, factor in factors.items():
        write_predictions(place / str(number), "validation", logits_of(factor))
    return lambda number: (place / str(number)).read("predictions_validation.parquet")


def compared(
    folder: Path, ours: float, theirs: float, objective: str = "val_ece"
) -> list[Comparison]:
    records, factors = sweep_of(ours, theirs)
    for record in records:
        record.outcome.setdefault("val_ece_scaled", record.outcome["val_ece"])
    ranking = ranked(records, search={"objective": objective})
    return compare(ranking, written(folder, factors))


def test_a_better_choice_is_supported_against_the_plain_baseline_alone(tmp_path: Path) -> None:
    """A temperature makes cross-entropy as good, and then that is to be used."""
    plain, scaled = compared(tmp_path, ours=1.0, theirs=2.0)
    assert (plain.theirs, plain.verdict) == ("cross_entropy", "supported")
    assert scaled.theirs == "cross_entropy + temperature scaling"
    assert scaled.verdict == "not supported"
    assert plain.seeds == scaled.seeds == 2
    assert verdict([plain, scaled]) == "not supported"
    first, second, last = in_words([plain, scaled])
    assert first.startswith("Better than cross_entropy? Yes, that is supported: ECE -0.")
    assert "Not supported, it may be chance" in second
    assert last.startswith("Nothing here is shown to beat cross_entropy + temperature scaling")


def test_a_worse_choice_is_told(tmp_path: Path) -> None:
    _, scaled = compared(tmp_path, ours=2.0, theirs=1.0)
    assert scaled.verdict == "worse"
    assert "No, it is worse: ECE +0." in in_words([scaled])[0]


def test_after_scaling_both_are_scaled(tmp_path: Path) -> None:
    plain, scaled = compared(tmp_path, ours=2.0, theirs=2.0, objective="val_ece_scaled")
    assert plain.ours == scaled.ours == "focal + temperature scaling"
    assert plain.verdict == "supported"
    assert scaled.value == pytest.approx(0, abs=0.002)


def test_a_chosen_baseline_is_compared_with_its_temperature_alone(tmp_path: Path) -> None:
    first = baseline(val_ece=0.01)
    again = [finalist(n, first, n, val_ece=0.01) for n in (1, 2)]
    (only,) = compare(ranked([first, *again]), written(tmp_path, {1: 2.0, 2: 2.1}))
    assert only.theirs == "cross_entropy + temperature scaling"
    assert only.verdict == "worse"


def test_without_a_choice_or_a_baseline_there_is_nothing_to_compare() -> None:
    failed = baseline(state="failed", history=[])
    assert compare(ranked([failed]), lambda number: b"") == []
    assert compare(ranked([failed, trial(1)]), lambda number: b"") == []
    assert verdict([]) is None
    assert in_words([]) == []


def test_predictions_of_other_samples_are_not_compared(tmp_path: Path) -> None:
    records, factors = sweep_of(1.0, 2.0)
    read = written(tmp_path, factors)
    logits, labels = logits_of(1.0)
    write_predictions(Folder(str(tmp_path / "4")), "validation", (logits, labels.flip(0)))
    with pytest.raises(ValueError, match="predicts other validation samples than those before it"):
        compare(ranked(records), read)
