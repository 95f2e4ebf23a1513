"""The table for papers: its values are those of the records, and LaTeX can compile it."""

import re
from pathlib import Path

import pytest

from sweeps.pages.paper_table import paper_table
from sweeps.search.plan import Plan
from tests.builders import baseline, finalist, make_sweep, new_store, ranked, trial
from tests.harness.command import calsweep

SWEEP = make_sweep("shown", losses=["focal", "mbls", "own:Odd_&_One"])


def scaled(ece: float, nll: float) -> dict[str, float]:
    return {
        "test_ece_scaled": ece,
        "test_ece_scaled_low": 0.0,
        "test_ece_scaled_high": 2 * ece,
        "test_nll_scaled": nll,
    }


FIRST = trial(1, "focal", {"gamma": 2.0}, val_ece=0.01)
RECORDS = [
    baseline(test_ece=0.03, temperature=2.0, **scaled(0.01, 0.2)),
    FIRST,
    finalist(2, FIRST, 1, val_ece=0.02, test_ece=0.02, **scaled(0.012, 0.3)),
    finalist(3, FIRST, 2, val_ece=0.02, test_ece=0.01, **scaled(0.016, 0.1)),
    trial(4, "mbls", {"margin": 9.0}, val_error=0.9, test_ece=0.0, **scaled(0.0, 0.0)),
    trial(5, "own:Odd_&_One", {"a_b": 1}, val_ece=0.5, test_ece=0.4, **scaled(0.4, 0.5)),
    trial(6, "focal", {"gamma": 3.0}, state="stopped"),
]


def test_the_numbers_are_percent_of_the_test_split_with_their_intervals() -> None:
    lines = paper_table(ranked(RECORDS), Plan(SWEEP), "markdown").splitlines()
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in lines if "|" in line}
    assert list(rows)[2:] == ["cross\\_entropy", "focal", "Odd\\_&\\_One", "mbls†"]
    setting, error, before, after, nll, nll_after = (c.strip() for c in rows["focal"])
    assert setting == "γ=2"
    assert error == "**10.00**"
    assert before == "**1.50** \\[0.00, 10.00\\]"
    assert after == "**1.40** \\[0.00, 2.80\\] (T = 1.50)"
    assert (nll, nll_after) == ("**0.100**", "**0.200**")
    # Lower, but from one seed: not comparable with a mean over two.
    assert rows["cross\\_entropy"][3].strip() == "1.00 \\[0.00, 2.00\\] (T = 2.00)"
    assert "**" not in "".join(rows["mbls†"])  # lowest, but outside the guard
    assert "Means over 2 fresh seeds" in lines[-1]
    assert "else one seed, which is never bold" in lines[-1]
    assert "† validation error more than 1 points above" in lines[-1]


def test_the_latex_table_is_well_formed() -> None:
    text = paper_table(ranked(RECORDS), Plan(SWEEP), "latex")
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")
    assert re.findall(r"\\(begin|end)\{(.*?)\}", text) == [
        ("begin", "table*"),
        ("begin", "tabular"),
        ("end", "tabular"),
        ("end", "table*"),
    ]
    for rule in ("\\toprule", "\\midrule", "\\bottomrule", "\\cmidrule(lr){4-5}"):
        assert rule in text
    rows = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert all(len(re.findall(r"(?<!\\)&", row)) == 6 for row in rows[1:])
    assert "Odd\\_\\&\\_One & a\\_b=1 &" in text
    assert "focal & $\\gamma$=2 & \\textbf{10.00}" in text
    assert text.isascii()


def test_other_objectives_have_a_column_and_nothing_finished_gives_no_rows() -> None:
    by_error = paper_table(
        ranked(RECORDS, search={"objective": "val_brier"}), Plan(SWEEP), "markdown"
    )
    assert "brier pre T" in by_error
    empty = paper_table(ranked([]), Plan(SWEEP), "markdown")
    assert empty.count("|") > 10 and "focal" not in empty


@pytest.mark.parametrize(("form", "part"), [("markdown", "| --- |"), ("latex", "\\toprule")])
def test_the_command_prints_it_or_writes_a_file(tmp_path: Path, form: str, part: str) -> None:
    new_store(tmp_path / "calsweep-store", SWEEP, RECORDS)
    printed = calsweep(tmp_path, "report", "shown", "--format", form)
    assert printed.returncode == 0, printed.stderr
    assert part in printed.stdout
    done = calsweep(tmp_path, "report", "shown", "--format", form, "--output", "table.txt")
    assert "written: " in done.stdout
    assert (tmp_path / "table.txt").read_text() == printed.stdout
