"""The arena: its tables are those of the recorded scores, and a better loss ranks first."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.arena import BASELINE, places, print_places, read, selected, settings_of

PAGE = Path(__file__).parents[2] / "benchmarks/results/arena.md"


def test_the_page_has_the_ranking_of_the_recorded_scores(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_places(read())
    assert capsys.readouterr().out in PAGE.read_text(encoding="utf-8")


def test_a_loss_that_lowers_every_nll_is_first_and_better() -> None:
    (setting,) = settings_of("my_module:MyLoss", ["gamma=2,adaptive=true"])
    assert setting.hyperparameters == {"gamma": 2, "adaptive": True}
    known = [each for each in read() if each.setting == BASELINE]
    ours = [replace(each, setting=setting, nll=0.8 * each.nll) for each in known]
    first, second = places(selected([*known, *ours], "none"), draws=50)
    assert (first.loss, first.first, first.last) == ("my_module:MyLoss", 1, 1)
    assert first.high < 0 and second.loss == "cross_entropy"
    assert first.ratio == pytest.approx(-0.2)
