"""The leaderboard."""

import json
import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from sweeps.messages.formatting import finite
from sweeps.messages.shares import Share
from sweeps.results.columns import LeaderboardRow, with_rare_class
from sweeps.results.documents import from_document
from sweeps.results.evidence import EventEvidence, Evidence
from sweeps.results.explanation import explain_choice, result_of
from sweeps.results.leaderboard import leaderboard
from sweeps.results.scaling import ScalingRow
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.untried import Untried
from sweeps.sweep_file.sections.training import TrainingSection
from sweeps.terminal.answers import leaderboard_table
from tests.builders import baseline, compared, finalist, make_sweep, ranked, shown, trial
from trainables.contract.setting import Setting
from trainables.files.rows import has_rare_class


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
    found = result_of(ranking, Plan(make_sweep()), Evidence(untried=untried))
    rows = {row.loss: row for row in found.rows}
    assert rows["mbls"].note == "not tried; 0.0213 expected"
    assert rows["brier"].note == "not tried"
    kept = from_document(Evidence, json.loads(json.dumps(finite(found.to_json()))))
    assert [each.setting for each in kept.untried] == [each.setting for each in untried]
    assert kept.untried[0].expected == 0.0213 and math.isnan(kept.untried[1].expected)


def test_a_stored_result_recommends_with_the_chosen_scaling() -> None:
    first = baseline(val_ece=0.05)
    scaling = ScalingRow(first.label, (0,), ("matrix",), False, 1.3, 0.35, 0.51, 0.02, 0.03)
    ranking, plan = ranked([first]), Plan(make_sweep())
    found = result_of(ranking, plan, Evidence(scalings=(scaling,)))
    assert found.recommended is not None
    assert found.recommended.name == "cross-entropy with structured matrix scaling"
    kept = from_document(Evidence, json.loads(json.dumps(finite(found.to_json()))))
    assert result_of(ranking, plan, kept).recommended == found.recommended
    assert {each.name for each in fields(Evidence)} <= found.to_json().keys() | {
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


def test_the_leaderboard_has_the_auroc_where_a_class_is_rare() -> None:
    usual = baseline(test_auroc=0.9)
    rare = replace(usual, history=[{**entry, "rare_class": 1.0} for entry in usual.history])
    for record, expected in ((usual, False), (rare, True)):
        rows = leaderboard(ranked([record]))
        assert ("test_auroc" in rows[0].metrics) == expected == with_rare_class(rows)
    found = {n: has_rare_class(np.repeat([0, 1], [100 - n, n])) for n in (0, 5, 9, 10, 50)}
    assert found == {0: False, 5: True, 9: True, 10: False, 50: False}
    assert not has_rare_class(np.arange(100))  # each of a hundred classes has its even share


def test_the_evidence_on_classes_and_comparisons_without_interval_survive_json() -> None:
    nan = math.nan
    against = compared("focal", "cross_entropy", "ece", 0.1, nan, nan, "not supported", 1)
    figures = {"auroc": (0.8, 0.7, 0.9), "slope": (1.1, nan, nan)}
    event = EventEvidence("focal", "ill", Share(0.1, 0.2), figures)
    wrong = EventEvidence("focal", "cat", Share(0.1, 0.2, 0.15, 0.25))
    right = replace(wrong, share=Share(0.1, 0.1, 0, 1))
    evidence = Evidence((against,), event=event, classes=(wrong, right))
    found = result_of(ranked([baseline()]), Plan(make_sweep()), evidence)
    again = from_document(Evidence, json.loads(json.dumps(finite(found.to_json()))))
    assert again.comparisons[0].difference == "+0.1000 no interval"
    assert again.on_shares == evidence.on_shares
    assert again.on_shares[0] == "P(ill): AUROC 0.8000 [0.7000, 0.9000], slope 1.1000."
    assert again.on_shares[1:] == [wrong.line]
    assert "P(cat) is 10.0 % on average, 20.0 % are cat [15.0, 25.0]: too low" in wrong.line
