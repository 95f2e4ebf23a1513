"""The leaderboard."""

import json
import math
from dataclasses import fields
from typing import Any

import pytest

from sweeps.messages.formatting import finite
from sweeps.results.columns import LeaderboardRow
from sweeps.results.explanation import explain_choice, result_of
from sweeps.results.judgement import Judgement
from sweeps.results.leaderboard import leaderboard
from sweeps.results.scaling import ScalingRow
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.untried import Untried
from sweeps.sweep_file.sections.training import TrainingSection
from sweeps.terminal.answers import leaderboard_table
from tests.builders import baseline, finalist, make_sweep, ranked, shown, trial
from trainables.contract.setting import Setting


def rows_by_loss(records: list[TrialRecord], **sections: Any) -> dict[str, LeaderboardRow]:
    return {row.loss: row for row in leaderboard(ranked(records, **sections))}


def test_the_leaderboard_has_one_row_per_loss_however_its_trials_ended() -> None:
    records = [
        baseline(val_ece=0.05),
        trial(1, "focal", val_ece=0.03, hyperparameters={"gamma": 3.0}),
        trial(2, "focal", val_ece=0.02, hyperparameters={"gamma": 5.0}),
        trial(3, "focal", epochs=1, state="stopped", val_ece=0.0),
        trial(4, "mbls", epochs=1, state="stopped", hyperparameters={"margin": 1.0}),
        trial(5, "mbls", epochs=3, state="stopped", hyperparameters={"margin": 2.0}),
        trial(6, "brier", state="failed", reason="diverged: logits", history=[]),
        trial(7, "ecp", val_ece=0.0, val_error=0.9),
    ]
    rows = rows_by_loss(records)
    assert list(rows) == ["focal", "cross_entropy", "ecp", "mbls", "brier"]
    assert {loss: row.note for loss, row in rows.items()} == {
        "focal": "selected",
        "cross_entropy": "baseline",
        "ecp": "error > baseline + 0.01",
        "mbls": "stopped at epoch 3",
        "brier": "failed: diverged: logits",
    }
    assert rows["focal"].hyperparameters == {"gamma": 5.0}
    assert rows["focal"].trials == {"finished": 2, "stopped": 1}
    assert rows["focal"].value("val_ece") == 0.02
    assert rows["mbls"].hyperparameters == {"margin": 2.0}
    assert math.isnan(rows["brier"].value("test_ece"))
    text = shown(leaderboard_table(list(rows.values()), "val_ece"), width=80)
    assert max(map(len, text.splitlines())) <= 80
    for part in ("focal", "γ=5", ".0200", "selected", "baseline", "1.50", "–"):
        assert part in text


def test_a_duplicate_has_the_row_and_the_seeds_of_what_it_equals() -> None:
    same: dict[str, Any] = {"val_nll_scaled": 0.31234, "val_nll": 0.4, "val_ece": 0.02}
    first, copy = baseline(**same), trial(1, "mbls", {"margin": 9.0}, **same)
    again = [finalist(2 + seed, first, seed, val_ece=0.03, test_ece=0.1 * seed) for seed in (1, 2)]
    rows = rows_by_loss([first, copy, *again])
    shown_as = [rows["mbls"].value(key) for key in ("val_ece", "test_ece")]
    assert (shown_as, rows["mbls"].seeds) == ([0.03, pytest.approx(0.15)], 2)
    assert (rows["mbls"].note, rows["mbls"].hyperparameters) == (
        "same as cross_entropy",
        {"margin": 9.0},
    )


def test_losses_that_were_not_tried_have_a_row() -> None:
    untried = (Untried(Setting("mbls", {"margin": 3.0}), 0.0213), Untried(Setting("brier", {})))
    ranking = ranked([baseline(val_ece=0.05)])
    found = result_of(ranking, Plan(make_sweep()), Judgement(untried=untried))
    rows = {row.loss: row for row in found.rows}
    assert rows["mbls"].note == "not tried; 0.0213 expected"
    assert rows["brier"].note == "not tried"
    kept = Judgement.from_json(json.loads(json.dumps(finite(found.to_json()))))
    assert [each.setting for each in kept.untried] == [each.setting for each in untried]
    assert kept.untried[0].expected == 0.0213 and math.isnan(kept.untried[1].expected)


def test_a_stored_result_recommends_with_the_chosen_scaling() -> None:
    first = baseline(val_ece=0.05)
    scaling = ScalingRow(first.label, (0,), ("matrix",), False, 1.3, 0.35, 0.51, 0.02, 0.03)
    ranking, plan = ranked([first]), Plan(make_sweep())
    found = result_of(ranking, plan, Judgement(scalings=(scaling,)))
    assert found.recommended is not None
    assert found.recommended.name == "cross-entropy with structured matrix scaling"
    kept = Judgement.from_json(json.loads(json.dumps(finite(found.to_json()))))
    assert result_of(ranking, plan, kept).recommended == found.recommended
    assert {each.name for each in fields(Judgement)} <= found.to_json().keys() | {
        "event",
        "confident",
    }


def test_no_word_of_a_setting_is_broken_at_80_columns() -> None:
    words = {"lam": 0.5, "epsilon": 0.05, "confidence": "max_probability"}
    numbers = {"margin": 16.58, "rho": 0.6507, "growth": 1.953}
    records = [
        baseline(),
        trial(1, "r_aurc", hyperparameters=words),
        trial(2, "cals_alm", hyperparameters=numbers),
        trial(3, "focal_calibration", hyperparameters={"gamma": 4.0, "lam": 1.5}),
        trial(4, "label_smoothing", val_error=0.9, hyperparameters={"alpha": 0.05}),
    ]
    text = shown(leaderboard_table(list(rows_by_loss(records).values()), "val_ece"), width=80)
    words_of_settings = ("r_aurc", "confidence=max_probability", "ρ=0.6507", "growth=1.953")
    note = ("error", ">", "baseline", "+")
    for word in (*words_of_settings, "focal_calibration", "label_smoothing", "selected", *note):
        assert word in text.split()
    assert max(map(len, text.splitlines())) <= 80


def test_finalists_are_shown_by_the_mean_over_new_seeds() -> None:
    focal: dict[str, Any] = {"loss": "focal", "hyperparameters": {"gamma": 3.0}}
    records = [
        baseline(val_ece=0.05),
        trial(1, val_ece=0.01, test_ece=0.5, **focal),
        trial(2, val_ece=0.02, test_ece=0.1, role="finalist", seed=1, **focal),
        trial(3, val_ece=0.04, test_ece=0.2, role="finalist", seed=2, **focal),
    ]
    row = rows_by_loss(records)["focal"]
    assert (row.value("val_ece"), row.value("test_ece")) == (
        pytest.approx(0.03),
        pytest.approx(0.15),
    )
    assert row.seeds == 2
    first, *_, apart, last = explain_choice(ranked(records), TrainingSection(adapt_share=0.3))
    assert apart.startswith("30% of the validation split is reserved for adapting")
    assert "Selected: focal γ=3 – the lowest val_ece, 0.0300 (mean over 2 fresh seeds)" in first
    assert "at most 0.01 above cross-entropy's" in first
    assert "ECE 0.1500 (95% interval 0.0000 to 0.1000), after temperature scaling 0.0500" in last


def test_what_is_shown_and_judged_follows_the_objective() -> None:
    """NLLs of 0.1 and 9.0 differ significantly, even if the intervals of the ECEs overlap."""
    records = [baseline(val_nll=9.0), trial(1, "focal", val_nll=0.1, test_nll=0.2)]
    ranking = ranked(records, search={"objective": "val_nll"})
    lines = explain_choice(ranking)
    assert "the lowest val_nll, 0.1000" in lines[0]
    assert not any("overlap" in line for line in lines)
    assert "On the test split: NLL 0.2000, after" in lines[-1]
    text = shown(leaderboard_table(leaderboard(ranking), "val_nll"))
    assert "NLL" in text
    assert "ECE" not in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("focal"))
    assert row[2:6] == [".1000", ".1000", ".1000", ".2000"]


def test_the_leaderboard_of_an_event_has_its_auroc() -> None:
    """For 3 % of events, the error of every model is that of a constant."""
    values: dict[str, Any] = {"val_event_ece": 0.013, "test_event_ece": 0.012, "test_auroc": 0.845}
    records = [baseline(**values), trial(1, "focal", {"gamma": 3.0}, **values)]
    rows = leaderboard(ranked(records, search={"objective": "val_event_ece"}))
    assert [row.value("test_auroc") for row in rows] == [0.845, 0.845]
    text = shown(leaderboard_table(rows, "val_event_ece"), width=80)
    assert max(map(len, text.splitlines())) <= 80
    for part in ("AUROC", ".8450", ".0130", "focal"):
        assert part in text
