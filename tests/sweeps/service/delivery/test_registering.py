"""A sweep registers a version in MLflow; the champion moves only as far as the evidence allows."""

import warnings
from pathlib import Path

import mlflow
import numpy as np
import pytest

from sweeps.evidence.comparison import compare_handed_out
from sweeps.planning.data import load_data
from sweeps.results.evidence import Evidence
from sweeps.results.explanation import result_of
from sweeps.results.verdicts import Verdict
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service.delivery.registering import promote, register
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.address import tracking_uri
from tests.builders import SCALED, compared, handed_out, make_sweep
from tests.harness.command import calsweep
from tests.harness.tracked import client_of, mirrored
from tests.harness.trained import train_sweep
from trainables.files.rows import Rows

CHAMPION, CHALLENGER = (f"models:/calsweep-digits@{each}" for each in ("champion", "challenger"))


@pytest.fixture
def store(tmp_path: Path) -> SweepStore:
    """A sweep in MLflow: trial 0 is cross-entropy, trial 1 a focal loss that learns far slower."""
    sweep = make_sweep(
        "small",
        dataset={"name": "digits", "train_samples": 200},
        model={"name": "small_cnn", "width": 4},
        losses=["focal"],
        training={"epochs": 2, "batch_size": 64, "lr": 0.05},
        search={"guard": 1.0, "objective": "val_error"},
        selection={"finalists": 0, "seeds": 0},
    )
    made = train_sweep(tmp_path / "a%20b", sweep, [("focal", 20.0)])
    mirrored(made)
    return made


def end(store: SweepStore, recommended: int, warnings: tuple[str, ...] = ()) -> None:
    """Let the sweep end with a recommendation, trial 0 or 1."""
    sweep, records = store.load_sweep(), store.load_records()
    verdict: Verdict = "supported" if recommended else "not supported"
    found = compared("focal", f"cross_entropy{SCALED}", "error", 0, 0, 0, verdict, 1, "test")
    for record in records:  # the focal loss is the selected setting
        *before, last = record.history
        record.history = [*before, {**last, "val_error": 0.5 - record.number / 10}]
        store.save(record)
    ranking = Ranking(records, rule_of(sweep))
    store.save_answer(result_of(ranking, Plan(sweep), Evidence((found,), warnings)).to_json())


@pytest.mark.slow
def test_the_champion_moves_by_evidence_or_by_command(
    store: SweepStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = f"; `calsweep promote small --storage {store.storage}` moves it"
    end(store, recommended=1, warnings=("Nothing was learned.",))
    with warnings.catch_warnings(record=True) as shown:
        registered = register("small", store.storage)
    assert not shown  # MLflow's hints are not for users
    assert registered == (
        f"{CHALLENGER} is version 1; there is no champion: the sweep has 1 warning{by_hand}"
    )
    end(store, recommended=1)
    first = f"{CHAMPION} is version 1: the sweep has no warnings, and there was no champion"
    assert register("small", store.storage) == first
    assert register("small", store.storage) == f"{CHAMPION} is this classifier, version 1"
    client = client_of(Path(store.storage))

    def aliases() -> dict[str, str]:
        found = client.get_registered_model("calsweep-digits").aliases
        return {alias: str(version) for alias, version in found.items()}

    assert aliases() == {"champion": "1"}

    end(store, recommended=0)
    client.set_model_version_tag("calsweep-digits", "1", "calsweep.test_split", "another")
    assert register("small", store.storage) == (
        f"{CHALLENGER} is version 2; @champion stays 1: version 1 was evaluated on another test "
        f"split{by_hand}"
    )
    own = client.get_model_version("calsweep-digits", "2").tags["calsweep.test_split"]
    client.set_model_version_tag("calsweep-digits", "1", "calsweep.test_split", own)
    better = register("small", store.storage)
    assert better.startswith(f"{CHAMPION} is version 2: it is not worse than version 1 by NLL on")
    end(store, recommended=1)
    worse = register("small", store.storage)
    assert worse.startswith(f"{CHALLENGER} is version 1; @champion stays 2: it is worse than vers")
    assert worse.endswith(by_hand)

    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri(store.storage))
    rows = load_data(store.load_sweep()).test.inputs[:20]
    for address, trial in ((CHAMPION, 0), (CHALLENGER, 1)):
        model = mlflow.pyfunc.load_model(address)
        expected = handed_out(store, trial)[:20]
        assert np.allclose(model.predict(rows), expected, atol=1e-5)
        (given,) = model.metadata.signature.inputs.inputs
        assert (str(given.type), given.shape) == ("uint8", (-1, 1, 8, 8))
        assert model.metadata.saved_input_example_info is not None
        assert model.metadata.metadata["temperature"] > 0

    done = calsweep(Path(store.storage), "promote", "small", "--storage", store.storage)
    assert done.stdout == f"promoted: {CHAMPION} is version 1, after version 2\n", done.stderr
    assert aliases() == {"champion": "1"}
    assert promote("small", store.storage) == f"{CHAMPION} is version 1"
    assert len(client.search_model_versions("name = 'calsweep-digits'")) == 2


def test_the_comparison_with_the_champion_is_paired_and_corrected() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    logits = np.eye(3, dtype=np.float32)[labels] + rng.normal(size=(400, 3)).astype(np.float32)
    good, other = Rows(logits, labels), Rows(0.1 * logits, labels)
    assert compare_handed_out(good, good).verdict == "not supported"
    assert compare_handed_out(good, other).verdict == "supported"
    found, of_ten = compare_handed_out(other, good), compare_handed_out(other, good, 10)
    assert (found.verdict, found.split, found.metric) == ("worse", "test", "nll")
    assert of_ten.low < found.low
    with pytest.raises(ValueError, match="the predictions are of different samples"):
        compare_handed_out(good, Rows(logits[::-1], labels[::-1]))
