"""The content of the report, also in a real browser."""

import csv
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps.errors import UserError
from sweeps.pages.report import render_report
from sweeps.results.evidence import Evidence
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.service.reading.writing import write_report
from sweeps.store.sweep_store import SweepStore
from tests.builders import baseline, compared, make_sweep, new_store, trial, write_predictions
from trainables.files.rows import Rows
from trainables.metrics import METRIC_NAMES

HOSTILE = "own:<script>alert(1)</script>"


def record(number: int, loss: str, **values: Any) -> TrialRecord:
    history = []
    for epoch in (1, 2, 3):
        entry = {
            f"{s}_{m}": 0.1 / epoch + number / 100 for s in ("val", "test") for m in METRIC_NAMES
        }
        scaled = {f"{name}_scaled": value for name, value in entry.items()}
        bounds = {f"{s}_ece_{end}": 0.05 for s in ("val", "test") for end in ("low", "high")}
        history.append(
            {"epoch": epoch, "timestamp": 1e9, "temperature": 1.2, **entry, **scaled, **bounds}
        )
    known = {"history": history, "ended": 1e9 + 60, **values}
    return baseline(**known) if number == 0 else trial(number, loss, **known)


def make_store(folder: Path, records: list[TrialRecord]) -> str:
    sweep = make_sweep("shown", losses=["focal", HOSTILE], training={"epochs": 3})
    store = new_store(folder, sweep, records)
    for each in records:
        logits = torch.randn(50, 10, generator=torch.Generator().manual_seed(each.number))
        write_predictions(store.trial_folder(each.number), "test", (logits, torch.arange(50) % 10))
    return str(folder)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    records = [record(0, "cross_entropy")]
    records += [record(n, "focal") for n in range(1, 7)]
    records += [record(7, HOSTILE), record(8, "focal", state="stopped", reason="too high")]
    storage = make_store(tmp_path / "store", records)
    return Path(write_report("shown", storage, str(tmp_path / "page.html")))


def test_skipped_samples_are_counted_and_listed(tmp_path: Path) -> None:
    storage = make_store(tmp_path / "store", [record(0, "cross_entropy")])
    without = Path(write_report("shown", storage, str(tmp_path / "page.html"))).read_text()
    assert "Skipped samples" not in without
    noted = "2 of 40 samples are skipped:\na/1.png: <broken>\na/2.png: broken"
    SweepStore(storage, "shown").folder.write("skipped_samples.txt", noted.encode())
    page = Path(write_report("shown", storage, str(tmp_path / "page.html"))).read_text()
    assert "Samples that cannot be used: 2 of 40 samples are skipped.</p>" in page
    assert "a/1.png: &lt;broken&gt;\na/2.png: broken" in page


def test_it_shows_choice_leaderboard_figures_and_reproduction(page: Path) -> None:
    text = page.read_text()
    for part in (
        "Selected: ",
        "Leaderboard",
        "ECE with T",
        "Calibration against error",
        "Early stopping",
        "1 of 9 trials were stopped early",
        "better there: 1 of 9 trials (1 × too high).",
        'data-label="reason">too high</td>',
        "Hyperparameters",
        "Risk–coverage curve",
        "Most confident errors",
        "No. 0 is the first sample of the test split",
        "comes from overconfident bins",
        "calsweep run sweep.yaml",
        "objective: val_ece",
    ):
        assert part in text, part
    assert re.search(r">sample of the test split<.*\n<tbody><tr><td>no\. \d+<", text)
    assert text.count("<svg") >= 3 + 5
    assert "8 finished" in text and "1 stopped" in text


def test_without_stopped_trials_there_is_nothing_on_early_stopping(tmp_path: Path) -> None:
    storage = make_store(tmp_path / "store", [record(0, "cross_entropy"), record(1, "focal")])
    text = Path(write_report("shown", storage, str(tmp_path / "page.html"))).read_text()
    assert "Early stopping" not in text and "#stopping" not in text


def test_the_data_of_the_page_can_be_downloaded(page: Path) -> None:
    text = page.read_text()
    found = dict(re.findall(r'<a download="([^"]+)" href="data:text/plain;base64,([^"]+)"', text))
    assert list(found) == ["shown-leaderboard.csv", "shown-trials.csv", "shown.yaml"]
    files = {name: b64decode(data).decode() for name, data in found.items()}
    trials = list(csv.DictReader(files["shown-trials.csv"].splitlines()))
    assert [row["number"] for row in trials] == [str(n) for n in range(9)]
    assert float(trials[3]["val_ece"]) == 0.1 / 3 + 3 / 100  # in full, not as shown
    assert trials[3]["gamma"] == "3.0"
    assert "name: shown" in files["shown.yaml"]


AGAINST = "cross_entropy + temperature scaling"


def rendered(verdict: Any, **further: Any) -> str:
    records = [record(0, "cross_entropy"), record(1, "focal", seed=1)]
    for each in records:
        each.history[-1]["val_error"] = 0.1
    records[1].history[-1]["val_ece"] = 0.001
    verdicts = [
        compared("focal", theirs, "ece", -0.02, -0.05, 0.01, verdict, 3, split, 4)
        for split in ("test", "validation")
        for theirs in ("cross_entropy", AGAINST)
    ]
    sweep = make_sweep("shown", losses=["focal"], training={"epochs": 3})
    rows = (torch.randn(50, 10).numpy(), (torch.arange(50) % 10).numpy())
    evidence = Evidence(tuple(verdicts), **further)
    return render_report(Plan(sweep), records, evidence, lambda *_: Rows(*rows))


@pytest.mark.parametrize(
    ("verdict", "further", "kind"),
    [
        ("supported", {}, "supported"),
        ("not supported", {}, ""),
        ("supported", {"warnings": ("Nothing was learned.",)}, "warnings"),
    ],
)
def test_the_recommendation_comes_first_in_the_colour_of_its_kind(
    verdict: str, further: dict[str, Any], kind: str
) -> None:
    main = rendered(verdict, **further).partition("<main>")[2]
    assert main.lstrip().startswith(
        f'<section class="answer {kind}" aria-label="Result"><p class="advice">★ Recommended: '
    )
    assert ("<strong>Warning:</strong> Nothing was learned." in main) == bool(further)


@pytest.mark.parametrize(
    ("verdict", "label", "starred"),
    [("supported", "focal γ=1", "focal"), ("not supported", "cross_entropy", "cross_entropy")],
)
def test_it_looks_at_the_recommended_network(verdict: str, label: str, starred: str) -> None:
    page = rendered(verdict)
    assert re.search(rf"<h2>{label}[^<]* on the test split</h2>\n[^,]*With its scaling \(", page)
    assert re.findall(r"★\s([a-z_]+)", page) == [starred]


def test_commands_in_a_sentence_are_code() -> None:
    page = rendered("supported", warnings=("Run `calsweep show <NAME>` & read.",))
    assert "Run <code>calsweep show &lt;NAME&gt;</code> &amp; read." in page


def test_two_verdicts_are_shown_and_the_rest_is_folded() -> None:
    shown, _, folded = rendered("supported").partition("<summary>All verdicts")
    assert shown.count('<td class="rival">') == 2
    assert folded.count('<td class="rival">') == 4


def test_it_tells_the_environment_of_the_sweep_not_its_own(tmp_path: Path) -> None:
    storage = make_store(tmp_path / "store", [record(0, "cross_entropy")])
    page = tmp_path / "page.html"
    write_report("shown", storage, str(page))
    assert "not known: its file is missing" in page.read_text()
    kept = SweepStore(storage, "shown").folder
    kept.write("environment.json", b'{"python": "2.7.18"}')
    write_report("shown", storage, str(page))
    assert "2.7.18" in page.read_text()


def test_it_is_one_file_and_escapes_what_users_wrote(page: Path) -> None:
    text = page.read_text()
    assert "<script>alert" not in text
    assert "src=" not in text
    assert "@import" not in text
    links = [x for x in text.split('"') if x.startswith("http") and "w3.org" not in x]
    assert all("xmlns" in link or "purl" in link or "creative" in link for link in links), links


def test_the_report_imports_nothing_unnecessary(tmp_path: Path) -> None:
    storage = make_store(tmp_path / "store", [record(n, "focal") for n in range(3)])
    code = f"""
import sys
from sweeps.service.reading.writing import write_report
write_report("shown", {storage!r}, {str(tmp_path / "page.html")!r})
print(*{{"torch", "pandas", "optuna", "mlflow", "ray", "scipy.stats"}} & set(sys.modules))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
    assert "as trained, ECE" in (tmp_path / "page.html").read_text()


def test_a_sweep_that_is_not_finished_says_so(tmp_path: Path) -> None:
    running = record(1, "focal", state="running", ended=None, history=[])
    storage = make_store(tmp_path / "store", [record(0, "cross_entropy"), running])
    text = Path(write_report("shown", storage, str(tmp_path / "p.html"))).read_text()
    assert "not finished" in text
    assert "calsweep resume shown" in text


def test_a_sweep_that_failed_says_why(tmp_path: Path) -> None:
    failed = [
        record(n, "focal", state="failed", reason="diverged: nan", history=[]) for n in (0, 1)
    ]
    storage = make_store(tmp_path / "store", failed)
    text = Path(write_report("shown", storage, str(tmp_path / "p.html"))).read_text()
    assert "2 × diverged: nan" in text


def test_bad_names_and_places(tmp_path: Path) -> None:
    storage = make_store(tmp_path / "store", [record(0, "cross_entropy")])
    with pytest.raises(UserError, match=r"did you mean 'shown'"):
        write_report("show", storage)
    with pytest.raises(UserError, match=r".*cannot be written"):
        write_report("shown", storage, str(tmp_path / "nowhere" / "page.html"))


def test_a_browser_sorts_trials_by_a_click_and_shows_all_on_a_phone(
    page: Path, chromium: str
) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page()
        errors: list[str] = []
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        tab.goto(page.as_uri())
        tab.locator("summary", has_text="All trials").click()
        first_column = "#trials tbody td:first-child"
        assert tab.locator(first_column).all_inner_texts() == [str(n) for n in range(9)]
        heading = tab.locator("#trials th", has_text="val ECE")
        heading.click()
        heading.click()
        assert tab.locator(first_column).first.inner_text() == "8"
        assert heading.get_attribute("aria-sort") == "descending"
        tab.set_viewport_size({"width": 390, "height": 800})
        tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        hidden = "[...document.querySelectorAll('.wide')].map(e => e.scrollWidth - e.clientWidth)"
        assert set(tab.evaluate(hidden)) == {0}
        assert errors == []
        browser.close()


@pytest.mark.parametrize("content", [b"", b"PAR1 cut"])
def test_damaged_predictions_are_named_and_do_without_their_diagram(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    records = [record(0, "cross_entropy"), record(1, "focal"), record(2, "focal")]
    storage = make_store(tmp_path / "store", records)
    store = SweepStore(storage, "shown")
    for number in (1, 2):
        store.trial_folder(number).write("predictions_test.parquet", content)
    store.trial_folder(2).write("trial.json", b"")
    path = Path(write_report("shown", storage, str(tmp_path / "page.html")))
    assert "Leaderboard" in path.read_text()
    assert "trial 1: predictions_test.parquet cannot be read" in caplog.text
    assert "00002/trial.json is damaged" in caplog.text
