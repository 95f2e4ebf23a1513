"""Facts about the data that are printed before a sweep starts."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.data_preview import data_facts, longest_duration
from sweeps.search.plan import Plan
from sweeps.store.first_files import skipped_files
from tests.builders import make_sweep
from tests.harness.command import calsweep
from trainables.data import load_dataset
from trainables.metrics import detectable_difference


@pytest.mark.parametrize(("share", "judging"), [(0.0, 360), (0.5, 180)])
def test_data_sizes_and_detectable_differences(share: float, judging: int) -> None:
    dataset = load_dataset("digits", seed=0)
    sweep = make_sweep(training={"adapt_share": share})
    facts = data_facts(Plan(fit_to_data(sweep, dataset)), dataset)
    assert facts["data"] == "1,078 training, 360 validation, 359 test samples of 10 classes"
    assert facts["samples"] == "images of 1 x 8 x 8 (channels, height, width)"
    assert facts["classes"] == "0, 1, 2, 3, 4, 5 and 4 more"
    assert facts["data kept"] == "in memory, 115.0 kB"
    assert facts["task"] == "one class of each sample"
    assert "noticed" not in facts
    text = facts["can detect"]
    assert f"differences in ECE of {detectable_difference(judging):.3f} or more" in text
    assert f"by {judging} validation samples" in text
    assert ("give dataset.validation more samples" in text) == (judging < 360)  # a quarter is all
    assert facts["chance of support"] == (
        "about 13% for a difference in ECE of 0.02, by 359 test samples (at an error of 0.1)"
    )


def test_skipped_samples_are_counted_and_listed() -> None:
    lines = ["12 of 90 samples are skipped:", *(f"row {row}: no label" for row in range(12))]
    dataset = replace(load_dataset("digits", seed=0), notes=("\n".join(lines),))
    text = data_facts(Plan(fit_to_data(make_sweep(), dataset)), dataset)["skipped"]
    assert text.splitlines() == [*lines[:11], "... and 2 more lines"]
    assert skipped_files(dataset) == {"skipped_samples.txt": "\n".join(lines).encode()}
    assert not skipped_files(load_dataset("digits", seed=0))


def test_remarks_of_a_reader_are_shown() -> None:
    dataset = replace(load_dataset("digits", seed=0), remarks=("one thing", "another"))
    facts = data_facts(Plan(fit_to_data(make_sweep(), dataset)), dataset)
    assert facts["noticed"] == "one thing\nanother"


def test_other_objectives_have_no_detectable_difference() -> None:
    dataset = load_dataset("digits", seed=0)
    sweep = make_sweep(search={"objective": "val_nll"})
    assert "can detect" not in data_facts(Plan(sweep), dataset)


@pytest.mark.slow
def test_check_says_so_and_fails_without_the_data(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text("name: a\ndataset: digits\nlosses: [focal]\n")
    text = calsweep(tmp_path, "check", "sweep.yaml").stdout
    assert "360 validation" in text
    assert "small_cnn" in text
    assert "SGD with momentum 0.9, learning rate 0.05" in text
    assert "an epoch on a" in text
    elsewhere = "dataset={name: npz, train: /not/here.npz, inputs: x, label: y}"
    run = calsweep(tmp_path, "check", "sweep.yaml", "--set", elsewhere)
    assert run.returncode == 2
    assert "/not/here.npz" in run.stderr
    assert "`calsweep check --no-data` checks the rest" in run.stderr
    assert not run.stdout
    assert (
        calsweep(tmp_path, "check", "sweep.yaml", "--set", elsewhere, "--no-data").returncode == 0
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "sweep.yaml"]


def test_what_is_streamed_says_from_where(tmp_path: Path) -> None:
    for index in range(40):
        folder = tmp_path / "images" / "ab"[index % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (50, 40), (index, 0, 0)).save(folder / f"{index}.png")
    options = {"root": tmp_path / "images", "storage": "stream", "cache": tmp_path / "cache"}
    dataset = load_dataset("image_folder", seed=0, **options)
    sweep = make_sweep(dataset={"name": "image_folder", "root": str(tmp_path / "images")})
    held = data_facts(Plan(fit_to_data(sweep, dataset)), dataset)["data kept"]
    assert held.startswith("streamed from the disk, ")
    assert f"kB (decoded 240.0 kB): {tmp_path}/cache/images-" in held


@pytest.mark.parametrize(
    ("seconds", "alone", "epochs", "slots", "needed"),
    [
        (0.1, 0, 1640, 2, 181.0),  # a sweep for which 82 s were estimated
        (1.0, 0, 100, 1, 100.0),
        (1.0, 30, 100, 4, 30 + 70 / 4),
    ],
)
def test_the_duration_is_an_upper_bound(
    seconds: float, alone: int, epochs: int, slots: int, needed: float
) -> None:
    assert longest_duration(seconds, alone, epochs, slots) > needed
    assert longest_duration(seconds, alone, epochs, slots) >= 60 + seconds * alone


def test_start_and_end_take_longer_on_a_busy_machine() -> None:
    quiet = longest_duration(0.1, alone=0, epochs=100, slots=2)
    assert longest_duration(0.1, alone=0, epochs=100, slots=2, crowd=4) == quiet + 3 * 60
