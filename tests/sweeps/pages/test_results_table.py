"""The table of several sweeps for papers: its marks are verdicts on the predictions."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sweeps.errors import UserError
from sweeps.pages.results_table import Form, results_table
from sweeps.service.reading.writing import values_in_table
from sweeps.store.sweep_store import SweepStore
from tests.builders import baseline, finalist, make_sweep, new_store, trial, write_predictions
from trainables.metrics import evaluate
from trainables.posthoc import MetaCalibration

# Two seeds of each loss, by how much their logits are too large.
FACTORS = {"cross_entropy": (3.0, 3.1), "focal": (1.0, 1.02), "mbls": (1.01, 1.0)}


def make_results(folder: Path, name: str, dataset: str) -> None:
    """A finished sweep in which focal and mbls are calibrated, and cross-entropy is not."""
    generator = torch.Generator().manual_seed(0)
    honest = 1.5 * torch.randn(3000, 5, generator=generator)
    labels = torch.multinomial(torch.softmax(honest, 1), 1, generator=generator)[:, 0]
    heads = [baseline(), trial(1, "focal", val_ece=0.01), trial(2, "mbls", val_ece=0.02)]
    records = list(heads)
    predictions: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for head in heads:
        for seed, factor in enumerate(FACTORS[head.loss], start=1):
            found = evaluate((factor * honest).double(), labels, ("ece", "nll", "error"))
            metrics = {f"test_{metric}": value for metric, value in found.items()}
            val_ece = head.outcome["val_ece"]
            number = len(records)
            records.append(finalist(number, head, seed, val_ece=val_ece, **metrics))
            predictions[number] = (factor * honest, labels)
    sweep = make_sweep(name, dataset=dataset)
    store = new_store(folder, sweep, [replace(each, ended=1e9 + 60) for each in records])
    for number, each in predictions.items():
        for split in ("validation", "test"):
            write_predictions(store.trial_folder(number), split, each)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    make_results(folder, "one", "digits")
    make_results(folder, "two", "cifar10")
    return folder


def table_of(storage: Path, form: Form, metrics: str = "nll,error") -> str:
    return table_of_some(["one", "two"], storage, metrics, form)


def table_of_some(names: list[str], storage: Path, metrics: str, form: Form) -> str:
    return results_table(values_in_table(names, str(storage), metrics), "loss", "dataset", form)


def test_what_is_not_shown_to_be_worse_than_the_best_is_bold(storage: Path) -> None:
    lines = [line.split("|")[1:-1] for line in table_of(storage, "markdown").splitlines()[:5]]
    heads, _, *rows = [[cell.strip() for cell in line] for line in lines]
    assert heads == ["loss", "digits NLL", "digits error", "cifar10 NLL", "cifar10 error"]
    assert [row[0] for row in rows] == ["cross\\_entropy", "focal", "mbls"]
    first, focal, mbls = (row[1] for row in rows)
    assert re.fullmatch(r"\d\.\d{3} ± 0\.\d{3}", first)
    assert re.fullmatch(r"\*\*\d\.\d{3} ± 0\.\d{3}\*\*\+", focal)
    assert re.fullmatch(r"\*\*\d\.\d{3} ± 0\.\d{3}\*\*\+", mbls)
    assert all(row[2].startswith("**") for row in rows)  # the same decisions


def test_the_latex_table_has_a_label_and_the_rules_of_booktabs(storage: Path) -> None:
    text = table_of(storage, "latex")
    assert text.count("{") == text.count("}") and text.isascii()
    for part in ("\\label{tab:", "\\toprule", "\\cmidrule(lr){4-5}", "$\\pm$", "\\bottomrule"):
        assert part in text
    rows = [line for line in text.splitlines() if line.endswith(" \\\\")]
    assert rows[1].startswith("loss & NLL & error & NLL & error")
    assert all(row.count("&") == 4 for row in rows[2:])
    assert rows[3].startswith("focal & \\textbf{")


def test_programs_read_numbers(storage: Path) -> None:
    values = json.loads(table_of(storage, "json"))
    lines = list(csv.DictReader(io.StringIO(table_of(storage, "csv"))))
    assert len(values) == len(lines) == 12
    first = next(each for each in values if (each["loss"], each["metric"]) == ("focal", "nll"))
    (same,) = [
        line
        for line in lines
        if (line["loss"], line["column"], line["metric"]) == ("focal", "digits", "nll")
    ]
    assert float(same["mean"]) == first["mean"]
    assert (same["verdict"], first["verdict"], first["seeds"]) == ("supported", "supported", 2)
    of = {(each["loss"], each["metric"]): each["verdict_with_t"] for each in values}
    assert of["focal", "nll"] == "not supported"  # T = 3 makes cross-entropy as good
    assert of["focal", "error"] is of["cross_entropy", "nll"] is None


def test_the_temperature_and_published_values_are_beside_the_measured_ones(tmp_path: Path) -> None:
    first = baseline(val_ece=0.02)
    again = [
        finalist(1 + i, first, i, val_ece=0.03, test_ece=0.04, temperature=1.4 + 0.1 * i)
        for i in (1, 2)
    ]
    published = {"cross_entropy": {"ece": 0.0435, "temperature": 2.5}}
    new_store(tmp_path, make_sweep("rerun", published=published), [first, *again])
    text = table_of_some(["rerun"], tmp_path, "ece,temperature", "markdown")
    row = next(line for line in text.splitlines() if line.startswith("| cross"))
    assert [cell.strip() for cell in row.split("|")[2:4]] == [
        "**4.00 ± 0.00** (4.35)",
        "1.550 ± 0.071 (2.500)",
    ]
    assert "In parentheses: the published value" in text


def test_columns_after_other_scalings_are_computed_from_the_predictions(storage: Path) -> None:
    asked = "canonical_kde_ece,ece@meta_calibration,accuracy@meta_calibration,nll_gap@temperature"
    text = table_of_some(["one"], storage, f"nll,{asked}", "json")
    found = {(each["loss"], each["metric"]): each["mean"] for each in json.loads(text)}
    names = dict(zip(("canonical", "ece", "accuracy", "gap"), asked.split(","), strict=True))
    gaps = {loss: found[loss, names["gap"]] for loss in FACTORS}
    assert gaps["cross_entropy"] > 0.1 > abs(gaps["focal"])  # T = 3 is needed, and T = 1
    assert found["cross_entropy", names["canonical"]] > found["focal", names["canonical"]] > 0
    store = SweepStore(str(storage), "one")
    logits, labels = store.rows("test", 3).tensors()
    after = MetaCalibration().fit(logits, labels)(logits)
    again = MetaCalibration().fit(*store.rows("test", 4).tensors())
    values = (
        evaluate(after, labels, ("ece", "accuracy")),
        evaluate(again(store.rows("test", 4).tensors()[0]), labels, ("ece", "accuracy")),
    )
    for name in ("ece", "accuracy"):
        mean = (values[0][name] + values[1][name]) / 2
        assert found["cross_entropy", names[name]] == pytest.approx(mean)


def test_duplicates_and_losses_that_were_not_tried_have_rows(tmp_path: Path) -> None:
    same = {"val_nll_scaled": 0.31234, "val_nll": 0.4, "val_ece": 0.02}
    first, copy = baseline(**same), trial(1, "mbls", **same)
    again = [finalist(2 + i, first, i, val_ece=0.03, test_ece=0.1 * i) for i in (1, 2)]
    published = {"cross_entropy": {"ece": 0.04}, "mbls": {"ece": 0.03}, "focal": {"ece": 0.02}}
    new_store(tmp_path, make_sweep("few", published=published), [first, copy, *again])
    text = table_of_some(["few"], tmp_path, "ece", "csv")
    rows = {row["loss"]: row for row in csv.DictReader(io.StringIO(text))}
    means = [float(rows[loss]["mean"]) for loss in ("mbls", "cross_entropy")]
    assert means == [pytest.approx(0.15)] * 2
    assert rows["mbls"]["seeds"] == rows["cross_entropy"]["seeds"] == "2"
    assert (rows["focal"]["mean"], rows["focal"]["seeds"]) == ("", "0")
    assert {loss: rows[loss]["published"] for loss in published} == {
        "cross_entropy": "0.04",
        "mbls": "0.03",
        "focal": "0.02",
    }


@pytest.mark.parametrize(
    ("names", "rows", "columns", "metrics", "message"),
    [
        (["one"], "loss", "loss", "nll", "rows and columns must differ"),
        (["one", "two"], "loss", "model", "nll", "are both in the cell cross_entropy, small_cnn"),
        (["one"], "loss", "dataset", "acc", "metrics: found 'acc'; allowed: ece,"),
        (["one"], "loss", "dataset", "ece@platt", "after @ allowed: temperature, vector"),
        (["one"], "loss", "dataset", "ece,,nll", "metrics: found ''"),
    ],
)
def test_bad_input_is_reported(
    storage: Path, names: list[str], rows: str, columns: str, metrics: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        values = values_in_table(names, str(storage), metrics)
        results_table(values, rows, columns, "csv")  # type: ignore[arg-type]
