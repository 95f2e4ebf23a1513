"""What the data allow to be told, said before anything is started."""

from pathlib import Path

import pytest

from sweeps.planning.data_facts import data_facts
from sweeps.planning.data_fit import fit_to_data
from tests.builders import make_sweep
from tests.harness.command import calsweep
from trainables.data import load_dataset
from trainables.metrics import detectable_difference


@pytest.mark.parametrize(("share", "judging"), [(0.0, 360), (0.5, 180)])
def test_how_much_there_is_and_what_it_can_tell_apart(share: float, judging: int) -> None:
    dataset = load_dataset("digits", seed=0)
    sweep = make_sweep(training={"adapt_share": share})
    facts = data_facts(fit_to_data(sweep, dataset), dataset)
    assert facts["data"] == "1,078 training, 360 validation, 359 test samples of 10 classes"
    told = facts["can tell apart"]
    assert f"differences in ECE of {detectable_difference(judging):.3f} or more" in told
    assert f"by {judging} validation samples" in told
    assert "give dataset.validation more samples" in told


def test_other_objectives_promise_nothing() -> None:
    dataset = load_dataset("digits", seed=0)
    sweep = make_sweep(search={"objective": "val_nll"})
    assert "can tell apart" not in data_facts(sweep, dataset)


def test_check_says_so_and_goes_without_data_that_are_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text("name: a\ndataset: digits\nlosses: [focal]\n")
    told = calsweep(tmp_path, "check", "sweep.yaml").stdout
    assert "360 validation" in told
    assert "small_cnn" in told
    elsewhere = "dataset={name: npz, train: /not/here.npz, inputs: x, label: y}"
    run = calsweep(tmp_path, "check", "sweep.yaml", "--set", elsewhere)
    assert run.returncode == 0
    assert "cannot be loaded here" in run.stdout
    assert (
        "not looked at"
        not in calsweep(tmp_path, "check", "sweep.yaml", "--set", elsewhere, "--no-data").stdout
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "sweep.yaml"]
