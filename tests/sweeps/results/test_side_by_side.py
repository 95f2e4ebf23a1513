"""The page that compares several sweeps."""

import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from sweeps.pages.figures import across_sweeps
from sweeps.pages.report import render_side_by_side
from sweeps.pages.svg import svg
from sweeps.results.side_by_side import Beside, best_by_loss
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.terminal.answers import side_by_side_tables
from tests.builders import baseline, make_sweep, shown, trial

GAMMAS = (0.1, 1.0, 3.0, 9.0)


def beside(name: str, best: float, verdict: str | None) -> Beside:
    """A sweep in which the gamma closest to ``best`` is the best."""
    records = [baseline(val_ece=0.05, val_error=0.1, temperature=1.3)]
    for number, gamma in enumerate(GAMMAS, start=1):
        far = abs(gamma - best)
        records.append(
            trial(number, "focal", {"gamma": gamma}, val_ece=0.01 + far / 100, val_error=0.1)
        )
    sweep = make_sweep(
        name, losses=["focal"], dataset={"name": "digits", "title": f"{name}-images"}
    )
    return Beside(sweep, Ranking(records, rule_of(sweep)), verdict)


SWEEPS = [beside("small", 1.0, "supported"), beside("large", 9.0, None)]


def test_the_charts_show_where_the_best_of_each_sweep_lies() -> None:
    (chart,) = [ET.fromstring(svg(drawn)) for drawn in across_sweeps(SWEEPS)]
    titles = [str(title.text) for title in chart.iter("{http://www.w3.org/2000/svg}title")]
    best = [title for title in titles if title.startswith("best: ")]
    assert ["γ=9" in best[0], "γ=1" in best[1]] == [True, True]  # from the bottom: large, small
    assert sum("focal" in title for title in titles[1:]) == 2 * (2 * len(GAMMAS) + 1)
    low, high, kind = chart.attrib["data-x"].split()
    assert kind == "log"
    assert float(low) < min(GAMMAS) < max(GAMMAS) < float(high)


def test_a_hyperparameter_of_one_sweep_alone_is_not_compared() -> None:
    assert across_sweeps(SWEEPS[:1]) == []


def test_the_page_has_choices_and_the_best_of_each_loss() -> None:
    page = render_side_by_side(SWEEPS)
    assert "small-images" in page
    (row,) = re.findall(r"<tr><td>focal</td>.*?</tr>", page, re.DOTALL)
    shown = re.sub(r"<[^>]+>|\s+", " ", row)
    best = best_by_loss(SWEEPS)["focal"]
    assert [c.setting.hyperparameters["gamma"] for c in best if c] == [1.0, 9.0]
    assert ".0100" in shown
    assert "γ=1" in shown
    assert "γ=9" in shown
    assert "supported" in page
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert ">focal</text>" not in page and ">selected with T</text>" in page  # the picture
    assert re.search(r"val 0?\.0100, test 0?\.1000", shown)


def test_intervals_state_their_groups() -> None:
    def by_groups(count: int, low: float) -> Beside:
        ends = {"test_ece_low": low, "test_ece_high": 15 * low}
        record = baseline(val_ece=0.05, test_groups=float(count), **ends)
        ranking = Ranking([record], rule_of(SWEEPS[0].sweep))
        return replace(SWEEPS[0], ranking=ranking, verdict="not supported")

    sweeps = [by_groups(57, 0.02), by_groups(7, math.nan)]
    assert re.search(r"\[0?\.0200, 0?\.3000\] over 57 groups", page := render_side_by_side(sweeps))
    assert "no interval over 7 groups" in page
    text = shown(side_by_side_tables(sweeps)[0], width=80)
    assert re.search("not supported.*\n.* over 57 groups", text)
    assert "groups" not in shown(side_by_side_tables(SWEEPS)[0]) + render_side_by_side(SWEEPS)


def test_nothing_is_scrolled_out_of_sight(tmp_path: Path, chromium: str) -> None:
    from playwright.sync_api import sync_playwright

    page = tmp_path / "page.html"
    page.write_text(render_side_by_side([*SWEEPS, beside("with_a_longer_name", 3.0, "worse")]))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        beyond = "[...document.querySelectorAll('*')].map(e => e.getBoundingClientRect().right)"
        for width in (1200, 390):
            tab = browser.new_page(viewport={"width": width, "height": 900})
            tab.goto(page.as_uri())
            assert tab.evaluate(f"Math.max(...{beyond})") <= width
        browser.close()
