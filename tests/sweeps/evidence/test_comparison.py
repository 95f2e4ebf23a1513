"""The selected setting compared with cross-entropy, raw and temperature-scaled."""

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps.evidence.comparison import compare, compare_losses, compare_on_test_split, look
from sweeps.results.verdicts import Comparison, basis, conclusion, error_of, verdict
from sweeps.search.record import TrialRecord
from tests.builders import SCALED, baseline, finalist, ranked, trial, write_predictions
from trainables import metrics as M
from trainables.files.rows import ReadRows, Rows
from trainables.files.storage import Folder

TEMPERATURES = {"scaling_method": {"name": "temperature"}}  # faster


def logits_of(factor: float, samples: int = 4000) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are too large by a factor, on the same samples for all factors."""
    generator = torch.Generator().manual_seed(0)
    honest = 1.5 * torch.randn(samples, 5, generator=generator)
    labels = torch.multinomial(torch.softmax(honest, 1), 1, generator=generator)[:, 0]
    return factor * honest, labels


def sweep_of(ours: float, theirs: float) -> tuple[list[TrialRecord], dict[int, float]]:
    """A sweep whose finalists have logits that are too large by these factors for all seeds."""
    first, other = baseline(val_ece=0.05), trial(1, val_ece=0.01)
    records = [first, other]
    records += [finalist(2 + seed, first, seed, val_ece=0.05) for seed in (1, 2)]
    records += [finalist(4 + seed, other, seed, val_ece=0.01) for seed in (1, 2)]
    return records, {3: theirs, 4: 1.02 * theirs, 5: ours, 6: 1.02 * ours}


def written(folder: Path, factors: dict[int, float]) -> ReadRows:
    """Writes the predictions of the trials; returns a function that reads them."""
    place = Folder(str(folder))
    for number, factor in factors.items():
        write_predictions(place / str(number), "validation", logits_of(factor))
    return read_once(place)


def read_once(place: Folder) -> ReadRows:
    """Reads each file once, as a store does."""
    return cache(lambda split, number: Rows.read(place / str(number), split))


def compared(
    folder: Path, ours: float, theirs: float, objective: str = "val_ece"
) -> list[Comparison]:
    records, factors = sweep_of(ours, theirs)
    for record in records:
        record.outcome.setdefault("val_ece_scaled", record.outcome["val_ece"])
    ranking = ranked(records, search={"objective": objective})
    return compare(ranking, written(folder, factors))


def test_a_better_setting_is_supported_only_against_the_raw_baseline(tmp_path: Path) -> None:
    """Scaling makes cross-entropy equally good, so it is recommended."""
    plain, scaled = compared(tmp_path, ours=1.0, theirs=2.0)
    assert (str(plain.theirs), plain.verdict) == ("cross_entropy", "supported")
    assert str(scaled.theirs) == "cross_entropy + scaling"
    assert scaled.verdict == "not supported"
    assert plain.seeds == scaled.seeds == 2
    assert verdict([plain, scaled]) == "not supported"


@pytest.mark.parametrize("objective", ["val_ece", "val_smooth_ece"])
def test_the_calibration_part_decides_where_ece_cannot(tmp_path: Path, objective: str) -> None:
    """Its difference is a mean over samples, while smooth ECE has no interval for differences."""
    records, factors = sweep_of(1.0, 1.22)
    for record in records:
        record.outcome["val_smooth_ece"] = record.outcome["val_ece"]
        record.outcome["temperature"] = 1.22 if record.loss == "cross_entropy" else 1.0
    place = Folder(str(tmp_path))
    for number, factor in factors.items():
        for split in ("validation", "test"):
            write_predictions(place / str(number), split, logits_of(factor, samples=1500))
    ranking = ranked(records, search={"objective": objective})
    found = compare_on_test_split(ranking, read_once(place))
    verdicts = {(each.metric, str(each.theirs)): each.verdict for each in found}
    assert verdicts.pop(("nll_calibration", "cross_entropy")) == "supported"
    assert set(verdicts.values()) == ({"not supported"} if objective == "val_ece" else set())
    assert "Avoidable NLL is what a temperature would take off the NLL." in basis(found)
    assert conclusion(found)[0] == (
        "Better calibrated than cross_entropy without a temperature: supported, by avoidable NLL "
        f"on the test split{' (ECE: not supported)' * (objective == 'val_ece')}."
    )


def test_looks_share_the_allowed_error(tmp_path: Path) -> None:
    """With two of at most eight seeds, the interval is wider; it says whether more may help."""
    records, factors = sweep_of(1.0, 2.0)
    read = written(tmp_path, factors)
    once = compare(ranked(records), read)
    found = compare(ranked(records), read, looks={2: 0.1, 8: 0.9})
    assert [each.looks for each in found] == [2, 2]
    assert all(each.chance is None for each in once)
    for wide, narrow in zip(found, once, strict=True):
        assert wide.value == narrow.value
        assert wide.high > narrow.high
    plain, scaled = found
    assert plain.verdict == "supported"
    assert scaled.chance is not None
    assert scaled.chance < 0.1
    assert look(found) == "hopeless"
    assert look(found[:1]) == "decided"
    assert look([replace(scaled, chance=0.5), plain]) == "open"
    assert look([]) == "hopeless"
    assert basis(found)[-1].endswith("among 1 setting and for 2 looks at the verdict.")
    last = compare(ranked(records), read, looks={1: 0.5, 2: 0.5})
    assert last[1].chance is None
    assert look(last) == "hopeless"


def test_a_worse_choice_is_reported(tmp_path: Path) -> None:
    plain, scaled = compared(tmp_path, ours=2.0, theirs=1.0)
    assert plain.verdict == "worse"
    assert plain.value > 0
    assert scaled.verdict == "not supported"  # both are scaled


def test_after_scaling_both_are_scaled(tmp_path: Path) -> None:
    plain, scaled = compared(tmp_path, ours=2.0, theirs=2.0, objective="val_ece_scaled")
    assert str(plain.ours) == str(scaled.ours) == "focal + scaling"
    assert plain.verdict == "supported"
    assert scaled.value == pytest.approx(0, abs=0.002)


def test_a_chosen_baseline_is_compared_with_its_temperature_alone(tmp_path: Path) -> None:
    first = baseline(val_ece=0.01)
    again = [finalist(n, first, n, val_ece=0.01) for n in (1, 2)]
    (only,) = compare(ranked([first, *again]), written(tmp_path, {1: 2.0, 2: 2.1}))
    assert str(only.theirs) == "cross_entropy + scaling"
    assert only.verdict == "worse"


def test_without_a_choice_or_a_baseline_there_is_nothing_to_compare() -> None:
    failed = baseline(state="failed", history=[])
    read = written(Path(), {})
    assert compare(ranked([failed]), read) == []
    assert compare(ranked([failed, trial(1)]), read) == []
    assert verdict([]) is None
    assert conclusion([]) == basis([]) == []


def test_predictions_of_other_samples_are_not_compared(tmp_path: Path) -> None:
    records, factors = sweep_of(1.0, 2.0)
    read = written(tmp_path, factors)
    logits, labels = logits_of(1.0)
    write_predictions(Folder(str(tmp_path / "4")), "validation", (logits, labels.flip(0)))
    with pytest.raises(ValueError, match="predicts other samples than the trials before it"):
        compare(ranked(records), read)


def test_no_run_is_counted_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of both sides are not among `others`, which also estimate the seed variance."""
    calls: list[dict[str, Any]] = []

    def spy(name: str, ours: Any, theirs: Any, *_: Any, **more: Any) -> M.Difference:
        calls.append({"ours": ours, "theirs": theirs, **more})
        return M.Difference(name, 0.0, 0.0, 0.0, "not supported")

    monkeypatch.setattr(M, "difference", spy)
    records, factors = sweep_of(1.0, 2.0)
    third = trial(7, val_ece=0.03)
    records += [third, *(finalist(7 + seed, third, seed, val_ece=0.03) for seed in (1, 2))]
    compare(ranked(records), written(tmp_path, {**factors, 8: 1.3, 9: 1.31}))
    assert len(calls) == 2
    for call in calls:
        groups = [call["ours"], call["theirs"], *call["others"]]
        assert [len(group) for group in groups] == [2, 2, 2]
        runs = [run for group in groups for run in group]
        assert not any(a.equal(b) for i, a in enumerate(runs) for b in runs[:i])


def test_the_interval_is_that_of_the_runs_themselves(tmp_path: Path) -> None:
    records, factors = sweep_of(1.0, 2.0)
    plain, *_ = compare(ranked(records), written(tmp_path, factors))
    runs = {n: logits_of(factor)[0].softmax(dim=1) for n, factor in factors.items()}
    _, labels = logits_of(1.0)
    expected = M.difference("ece", [runs[5], runs[6]], [runs[3], runs[4]], labels)
    assert (plain.low, plain.high) == pytest.approx((expected.low, expected.high), abs=1e-6)


@pytest.mark.parametrize("objective", ["val_error", "val_error_scaled"])
def test_with_error_as_objective_the_verdict_is_about_the_error(
    tmp_path: Path, objective: str
) -> None:
    """There is no comparison after a temperature, which does not change the error."""
    records, factors = sweep_of(1.0, 2.0)
    for record in records:
        if record.loss == "focal":
            record.outcome["val_error"] = 0.09
        record.outcome["val_error_scaled"] = record.outcome["val_error"]
    (only,) = found = compare(
        ranked(records, search={"objective": objective}), written(tmp_path, factors)
    )
    assert (str(only.ours), str(only.theirs), only.metric) == ("focal", "cross_entropy", "error")
    assert verdict(found) == "not supported"  # the predictions have the same errors


def written_for_test(
    folder: Path, factors: dict[int, float], on_validation: dict[int, float] | None = None
) -> ReadRows:
    """Like ``written``, for the test split; on the validation split with the same factors."""
    place = Folder(str(folder))
    for number, factor in factors.items():
        write_predictions(place / str(number), "test", logits_of(factor))
        known = (on_validation or factors)[number]
        write_predictions(place / str(number), "validation", logits_of(known))
    return read_once(place)


def test_the_verdict_on_the_test_split_comes_first(tmp_path: Path) -> None:
    """Scalings come from the validation split; here they are too strong for cross-entropy."""
    records, factors = sweep_of(ours=1.0, theirs=1.0)
    for record in records:
        record.outcome["temperature"] = 2.0 if record.loss == "cross_entropy" else 1.0
    known = {**factors, 3: 2.0, 4: 2.0}
    read = written_for_test(tmp_path / "test", factors, known)
    on_test = compare_on_test_split(ranked(records, **TEMPERATURES), read)
    assert [each.verdict for each in on_test] == ["worse", "not supported", "supported"]
    assert {each.split for each in on_test} == {"test"}
    on_validation = compare(ranked(records, **TEMPERATURES), written(tmp_path, factors))
    assert verdict(on_validation) == "not supported"
    assert verdict([*on_test, *on_validation]) == "supported"
    lines = basis([*on_test, *on_validation])
    assert any("Intervals on it have a level of 97.5 %: this is sweep 1" in each for each in lines)
    assert lines[-1].endswith("corrected for the selection among 1 setting.")
    assert conclusion([*on_test, *on_validation]) == [
        "Better calibrated than cross_entropy without a temperature: worse, by avoidable NLL on "
        "the test split (ECE: not supported)."
    ]


def test_losses_are_compared_in_pairs_that_share_the_error(tmp_path: Path) -> None:
    records, factors = sweep_of(ours=1.0, theirs=2.0)
    third = trial(7, "mbls", val_ece=0.03)
    records += [third, *(finalist(7 + seed, third, seed, val_ece=0.03) for seed in (1, 2))]
    for record in records:
        record.outcome["temperature"] = 1.0
    read = written_for_test(tmp_path, {**factors, 8: 2.0, 9: 2.04})
    part, pair, *with_baseline = compare_losses(ranked(records, **TEMPERATURES), read)
    baseline = "cross_entropy"
    assert [(str(each.ours), str(each.theirs), each.metric) for each in with_baseline] == [
        (ours + ending, baseline + ending, metric)
        for ours in ("focal", "mbls")
        for ending, metric in (("", "nll_calibration"), ("", "ece"), (SCALED, "ece"))
    ]
    assert {each.split for each in with_baseline} == {"test"}
    assert (str(part.ours), str(part.theirs), part.metric) == ("focal", "mbls", "nll_calibration")
    assert (str(pair.ours), str(pair.theirs), pair.split) == ("focal", "mbls", "test")
    assert pair.verdict == "supported"
    assert (
        verdict(compare_on_test_split(ranked(records, **TEMPERATURES), read)) == "not supported"
    )  # both scaled
    fourth = trial(10, "brier", val_ece=0.04)
    records += [fourth, *(finalist(10 + seed, fourth, seed, val_ece=0.04) for seed in (1, 2))]
    for record in records:
        record.outcome["temperature"] = 1.0
    read = written_for_test(tmp_path, {**factors, 8: 2.0, 9: 2.04, 11: 2.0, 12: 2.04})
    several = compare_losses(ranked(records, **TEMPERATURES), read)
    assert [(str(each.ours), str(each.theirs)) for each in several if each.metric == "ece"] == [
        ("focal", "mbls"),
        ("focal", "brier"),
        ("mbls", "brier"),
        *(
            (ours + ending, "cross_entropy" + ending)
            for ours, ending in product(("focal", "mbls", "brier"), ("", SCALED))
        ),
    ]
    without = [each for each in records if each.loss not in ("mbls", "brier")]
    assert (
        compare_losses(ranked(without, **TEMPERATURES), read) == []
    )  # the comparisons of the selected setting
    for record in records:
        record.outcome["val_aurc"] = record.outcome["val_ece"]
    of_aurc = ranked(records, **TEMPERATURES, search={"objective": "val_aurc"})
    assert compare_losses(of_aurc, read) == []  # no interval of such a difference is known
    third = compare_losses(ranked(records, **TEMPERATURES), read, sweeps=3)
    assert third[1].high > several[1].high
    for record in without:  # so that cross-entropy is selected
        record.outcome["val_ece"] = 0.001 if record.loss == baseline else 0.02
    of_focal = compare_losses(ranked(without, **TEMPERATURES), read)
    assert [(str(each.ours), str(each.theirs)) for each in of_focal if each.metric == "ece"] == [
        ("focal", "cross_entropy"),
        ("focal" + SCALED, "cross_entropy" + SCALED),
    ]


def test_every_sweep_that_the_test_split_judges_widens_the_interval(tmp_path: Path) -> None:
    records, factors = sweep_of(1.0, 1.3)
    read = written_for_test(tmp_path, factors)
    once, *_ = compare_on_test_split(ranked(records, **TEMPERATURES), read)
    often, *_ = compare_on_test_split(ranked(records, **TEMPERATURES), read, sweeps=20)
    assert often.low < once.low
    assert once.high < often.high
    assert "a level of 99.99 %: this is sweep 20" in " ".join(basis([often]))
    assert sum(error_of(sweep) for sweep in range(1, 1000)) == pytest.approx(0.05, rel=2e-3)
    assert "Of two rows with the same names" not in " ".join(basis([often]))
    in_pairs = replace(often, low=often.low - 0.01)
    assert "Of two rows with the same names" in " ".join(basis([often, in_pairs]))
    of_groups = replace(often, groups=57)
    assert "Intervals are over groups and" in " ".join(basis([of_groups]))


def test_on_the_test_split_only_the_finalists_are_corrected_for(tmp_path: Path) -> None:
    records, factors = sweep_of(1.0, 1.3)
    more = [*records, *(trial(n, val_ece=0.2) for n in range(10, 40))]
    read = written_for_test(tmp_path, factors)
    assert compare_on_test_split(ranked(records, **TEMPERATURES), read) == compare_on_test_split(
        ranked(more, **TEMPERATURES), read
    )
    narrow, wide = (
        compare(ranked(each), written(tmp_path, factors))[0] for each in (records, more)
    )
    assert wide.high - wide.low > narrow.high - narrow.low
