"""Groups, such as customers, from Python through a sweep to its verdicts, and in ``judge``."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import calsweep
from calsweep.composing import Composer
from sweeps.errors import UserError
from sweeps.judging.reading import read_predictions
from sweeps.judging.tables import Asked
from sweeps.service.reading.writing import write_report
from tests.builders import compared
from trainables.data.readers.arrays import load_npz
from trainables.files.rows import Rows

GROUPS = np.repeat(np.arange(90), np.random.default_rng(0).integers(2, 9, 90))


def visits() -> tuple[Any, Any]:
    """Numbers and labels 1 and 2; each customer has one label and similar numbers."""
    random = np.random.default_rng(1)
    of_customer = random.integers(0, 2, 90)[GROUPS]
    x = of_customer[:, None] + random.normal(size=(90, 3))[GROUPS] + 0.1
    return x.astype(np.float32), of_customer + 1


def test_a_sweep_takes_groups_as_the_unit(tmp_path: Path) -> None:
    result = calsweep.run(
        dataset=visits(),
        groups=[f"customer {each}" for each in GROUPS],
        losses=["cross_entropy", "label_smoothing"],
        epochs=1,
        trials=2,
        set={
            "search.objective": "val_event_ece",
            "selection.seeds": 1,
            "dataset.test_size": 0.3,
            "dataset.validation": 0.3,
        },
        storage=tmp_path,
        debug=True,
        progress=False,
    )
    found = result.comparisons()
    (groups,) = set(found.loc[found["split"] == "test", "groups"])
    assert 15 < groups < 40
    assert set(result.table()["test_groups"].dropna()) == {groups}
    assert f" over {groups} groups)" in "\n".join(result.why)
    # Two classes: the probability of the event, here and on the page.
    text = " ".join(str(result).split())
    assert " on the test split: P(class 2) is " in text
    share = text[text.index("P(class 2) is ") :]
    assert "test_event_ece" in result.table()
    assert set(found["metric"]) == {"event_ece", "nll"}  # nll: with the reference model
    page = Path(write_report(result.name, str(tmp_path), str(tmp_path / "page.html"))).read_text()
    assert share[:20] in page
    assert page.count("samples, mean probability") > 5


def test_parts_have_their_own_groups(tmp_path: Path) -> None:
    composer = Composer(str(tmp_path))
    x, y = visits()
    early, late = GROUPS < 60, GROUPS >= 60
    parts = ((x[early], y[early]), (x[late], y[late]))
    found = composer.dataset(parts, (GROUPS[early], GROUPS[late]))
    assert found["group"] == "group"
    del found["name"]
    dataset = load_npz(seed=0, **found)
    assert dataset.test.num_groups == 30
    assert dataset.train.num_groups + dataset.validation.num_groups == 60
    with pytest.raises(UserError, match="with 2 parts in dataset, it must be a tuple of 2 arrays"):
        composer.dataset(parts, GROUPS)
    with pytest.raises(UserError, match="test has no groups; groups are needed in every part"):
        composer.dataset(parts, (GROUPS[early], None))
    with pytest.raises(UserError, match=r"groups have shape \(\d+,\); \(\d+,\) is needed"):
        composer.dataset((x, y), GROUPS[:-1])
    with pytest.raises(UserError, match=r"train: row 1 \(from 0\) has no group"):
        composer.dataset((x, y), [None if n == 1 else n for n in range(len(x))])
    with pytest.raises(UserError, match=r"name the column: dataset\.group"):
        composer.dataset("digits", GROUPS)
    shared = composer.dataset(parts, (GROUPS[early], GROUPS[early][: late.sum()]))
    del shared["name"]
    with pytest.raises(ValueError, match="a group may be in one split only"):
        load_npz(seed=0, **shared)


def test_rows_keep_their_groups() -> None:
    rows = Rows(np.eye(3, dtype=np.float32), np.arange(3), groups=np.array([4, 4, 7]))
    found = Rows.decode(rows.encode())
    assert found.groups is not None
    assert found.groups.tolist() == [4, 4, 7]
    assert found.num_groups == 2
    assert Rows.decode(Rows(rows.logits, rows.labels).encode()).groups is None


def predictions(copies: int) -> tuple[Any, Any, Any]:
    """Copies of 120 samples, with the number of the sample."""
    random = np.random.default_rng(0)
    logits = 2 * random.standard_normal((120, 3))
    probs = torch.from_numpy(logits).softmax(1).numpy()
    labels = np.array([random.choice(3, p=each) for each in probs])
    return *(each.repeat(copies, axis=0) for each in (probs, labels)), np.arange(120).repeat(copies)


def test_judge_takes_clusters_as_the_unit() -> None:
    probs, labels, ids = predictions(6)
    found = calsweep.judge(probs, labels, clusters=ids).facts["models"][0]
    alone = calsweep.judge(*predictions(1)[:2]).facts["models"][0]
    as_if = calsweep.judge(probs, labels).facts["models"][0]
    assert (found["clusters"], alone["clusters"]) == (120, None)

    def width(each: Any, *keys: str) -> float:
        for key in keys:
            each = each[key]
        return float(each["high"] - each["low"])

    for keys in (("metrics", "nll"), ("metrics", "ece"), ("metrics", "auroc"), ("direction",)):
        assert width(found, *keys) == pytest.approx(width(alone, *keys), rel=0.3)
        assert width(found, *keys) > 1.6 * width(as_if, *keys)
    assert found["recommended"] == "none"  # labels are drawn from these probabilities
    assert "Intervals and verdicts take 120 clusters as the unit." in repr(
        calsweep.judge(probs, labels, clusters=ids)
    )


def test_judge_compares_by_clusters() -> None:
    probs, labels, ids = predictions(6)
    sharper = probs**1.3 / (probs**1.3).sum(1, keepdims=True)
    both = {"ours": probs, "theirs": sharper}
    (found, *_) = calsweep.judge(both, labels, clusters=ids).facts["comparison"]
    (as_if, *_) = calsweep.judge(both, labels).facts["comparison"]
    assert found["high"] - found["low"] > 2 * (as_if["high"] - as_if["low"])
    few = calsweep.judge(both, labels, clusters=ids % 9)
    assert {each["verdict"] for each in few.facts["comparison"]} == {"not supported"}
    assert "9 clusters are the unit: at least 10 are needed for intervals" in repr(few)


def test_clusters_of_a_file_are_a_column(tmp_path: Path) -> None:
    probs, labels, ids = predictions(2)
    path = tmp_path / "model.csv"
    head = "p_0,p_1,p_2,label,customer"
    np.savetxt(path, np.column_stack([probs, labels, ids]), "%.9g", ",", header=head, comments="")
    (model,) = read_predictions([str(path)], Asked(cluster="customer"))
    assert model.clusters is not None
    assert len(model.clusters.unique()) == 120
    assert "customer" not in model.read.ignored


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        ([1, 2, 3], r"clusters have shape \(3,\); \(240,\) is needed"),
        (["a"] * 240, "all samples are of one cluster, 'a'"),
        (["a", None] * 120, r"row 1 \(from 0\) has no cluster, as 120 rows have none"),
    ],
)
def test_other_clusters_are_refused(clusters: list[Any], message: str) -> None:
    probs, labels, _ = predictions(2)
    with pytest.raises(UserError, match=message):
        calsweep.judge(probs, labels, clusters=clusters)


def test_a_comparison_states_its_groups() -> None:
    many = compared("a", "b", "nll", -0.1, -0.2, -0.05, "supported", 1, groups=57)
    assert many.difference == "-0.1000 [-0.2000, -0.0500], 57 groups"
    few = compared("a", "b", "nll", -0.1, -np.inf, np.inf, "not supported", 1, groups=7)
    assert few.difference == "-0.1000 no interval, 7 groups; 10 are needed"
