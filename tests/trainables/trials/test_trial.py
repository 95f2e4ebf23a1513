"""Interrupted trials resume with identical results; damaged checkpoints are detected."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from trainables import metrics as M
from trainables.contract.config import ScalingWay, TrainingConfig, TrialSetup
from trainables.contract.messages import (
    COSTS,
    Failed,
    OutOfMemory,
    Progressed,
    Role,
    TrialConfig,
    Waiting,
)
from trainables.contract.setting import Setting
from trainables.data import load_dataset
from trainables.data.core.base import Dataset, EvaluationSet, Split
from trainables.engine.optimizers import learning_rate_factor
from trainables.files.checkpoints import load_checkpoint, read_checkpoint, save_checkpoint
from trainables.files.rows import Rows
from trainables.files.storage import Folder
from trainables.metrics import METRIC_NAMES
from trainables.posthoc import Scaling, TemperatureScaling, cross_fitted
from trainables.runtime.devices import DeviceFailedError, has_failed
from trainables.trials.kept_epoch import epoch_losses, is_better
from trainables.trials.outcome import Extent, completed
from trainables.trials.scaling import fit_network_scaling
from trainables.trials.trial import TrialRun, validation_parts

EPOCHS = 4
CONFIG = TrialConfig(7, "search", Setting("cross_entropy", {}), seed=3)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits", seed=0, train_samples=300)


def make_setup(folder: Path, **training: Any) -> TrialSetup:
    recipe = {"epochs": EPOCHS, "batch_size": 64, "lr": 0.05, "augmentation": "crop", **training}
    return TrialSetup(
        model="small_cnn",
        model_options={"width": 4, "dropout": 0.2},
        training=TrainingConfig(**recipe),
        trials_uri=str(folder),
        outcome_epochs=(2, recipe["epochs"]),
    )


def start(digits: Dataset, setup: TrialSetup, loss: str = "cross_entropy") -> TrialRun:
    return TrialRun(digits, setup, replace(CONFIG, setting=Setting(loss)))


def entries(run: TrialRun, reports: int) -> list[dict[str, Any]]:
    """Entries of the next reports, without values that differ between runs."""
    found = []
    for _ in range(reports):
        report = run.advance()
        assert isinstance(report, Progressed)
        found += [without_time(entry) for entry in report.entries]
    return found


def last_state(folder: Path) -> dict[str, Any]:
    data = read_checkpoint(Folder(str(folder)) / "00007" / "checkpoints")
    assert data is not None
    trainer: dict[str, Any] = torch.load(io.BytesIO(data))["trainer"]
    return trainer


def without_time(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in COSTS}


PLATEAU = {"lr": 1e-7, "schedule": "plateau", "plateau_patience": 1}  # from epoch 2 on
OTHER_RECIPES = [("cross_entropy", PLATEAU), ("cross_entropy", {"keep": "val_ece"})]


@pytest.mark.parametrize(
    ("loss", "recipe"),
    [
        *((name, {}) for name in ("cross_entropy", "cals_alm", "adafocal", "crl", "aucm", "mixup")),
        *OTHER_RECIPES,
    ],
)
def test_a_trial_interrupted_after_any_epoch_has_the_same_result(
    tmp_path: Path, digits: Dataset, loss: str, recipe: dict[str, Any]
) -> None:
    whole = start(digits, make_setup(tmp_path / "whole", **recipe), loss)
    reports = [whole.advance() for _ in range(EPOCHS)]
    assert [report.done for report in reports] == [False] * (EPOCHS - 1) + [True]
    results = [without_time(entry) for entry in whole.history]
    for cut in range(1, EPOCHS):
        folder = tmp_path / f"cut{cut}"
        before = start(digits, make_setup(folder, **recipe), loss)
        for _ in range(cut):
            before.advance()
        after = start(digits, make_setup(folder, **recipe), loss)
        # The first report repeats all epochs, because earlier reports may have been lost.
        assert entries(after, EPOCHS - cut + 1) == results
    for name, value in last_state(tmp_path / "whole")["model"].items():
        assert torch.equal(value, last_state(tmp_path / "cut2")["model"][name]), name


def test_the_learning_rate_falls_after_a_plateau(tmp_path: Path, digits: Dataset) -> None:
    run = start(digits, make_setup(tmp_path, **PLATEAU))
    assert [entry["lr"] for entry in entries(run, EPOCHS)] == pytest.approx([1e-7] * 3 + [1e-8])


def test_the_network_of_the_selected_epoch_is_the_result(tmp_path: Path, digits: Dataset) -> None:
    """The last entry, the predictions and the checkpoint are those of that epoch."""
    plain = start(digits, make_setup(tmp_path / "plain"))
    values = [entry["val_ece"] for entry in entries(plain, EPOCHS)]
    run = start(digits, make_setup(tmp_path / "kept", keep="val_ece", keep_after=0.25))
    *before, last = entries(run, EPOCHS)
    assert min(values) == values[0]  # too early
    best = min(range(1, EPOCHS), key=values.__getitem__)
    assert best < EPOCHS - 1
    assert last["kept_epoch"] == best + 1
    assert last["val_ece"] == pytest.approx(values[best])
    assert [entry["val_ece"] for entry in before] == pytest.approx(values[:-1])
    assert not any("kept_epoch" in entry for entry in before)
    logits, labels = Rows.read(Folder(str(tmp_path / "kept")) / "00007", "validation").tensors()
    assert M.evaluate(logits, labels, ["ece"])["ece"] == pytest.approx(values[best])
    run.close()
    again = start(digits, make_setup(tmp_path / "kept", keep="val_ece", keep_after=0.25))
    again.advance()
    assert again._trainer is not None
    torch.testing.assert_close(again._trainer.predict(digits.validation)[0], logits)


@pytest.mark.parametrize("keep", ["nll", "refinement"])
def test_a_guarded_epoch_gives_way_unless_it_is_better_by_more_than_chance(
    tmp_path: Path, digits: Dataset, keep: str
) -> None:
    usual = start(digits, make_setup(tmp_path / "usual"))
    *_, last = entries(usual, EPOCHS)
    run = start(digits, make_setup(tmp_path / "kept", keep=keep))
    *_, found = entries(run, EPOCHS)
    assert (found["kept_epoch"], found["val_nll"]) == (EPOCHS, pytest.approx(last["val_nll"]))
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (300,), generator=draw)
    logits = torch.nn.functional.one_hot(labels, 3) + torch.randn(300, 3, generator=draw)
    now, worse = (
        epoch_losses((logits, labels), refined=False),
        epoch_losses((3 * logits, labels), refined=False),
    )
    assert is_better(now, worse, (logits, labels))
    assert not is_better(worse, now, (logits, labels))
    assert not is_better(now, now, (logits, labels))
    few = 20 * torch.nn.functional.one_hot(labels, 3) + logits  # all are correct
    assert not is_better(now, worse, (few, labels))
    # Copies of ten samples are no more evidence than the ten.
    units = torch.arange(10).repeat(30)
    shifted = now + torch.randn(10, generator=draw).repeat(30) + 0.1
    assert not is_better(now, shifted, (logits, labels), units)


def test_outcomes_are_written_where_a_trial_may_end(tmp_path: Path, digits: Dataset) -> None:
    run = start(digits, replace(make_setup(tmp_path), deciding_metrics=("val_smooth_ece",)))
    first, second = entries(run, 2)
    assert "temperature" not in first
    cheap = {"temperature", "val_ece", "test_ece_scaled", "val_smooth_ece", "val_smooth_ece_scaled"}
    assert cheap <= second.keys()
    assert not {"val_kde_ece", "val_ece_low"} & second.keys()  # the trial has not ended
    folder = Folder(str(tmp_path)) / "00007"
    logits, labels = Rows.read(folder, "test").tensors()
    assert logits.shape == (len(digits.test.labels), 10)
    assert labels.tolist() == digits.test.labels.tolist()
    error = float((logits.argmax(1) != labels).double().mean())
    assert error == pytest.approx(second["test_error"])
    *_, last = entries(run, EPOCHS - 2)
    assert 0 <= last["val_smooth_ece_low"] <= last["val_smooth_ece_high"]
    assert last["val_error_low"] < last["val_error_high"]
    assert not {"val_kde_ece", "val_ece_low", "test_smooth_ece_low"} & last.keys()


def own(probs: torch.Tensor, labels: torch.Tensor) -> float:
    return float(M.brier_score(probs, labels))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_finalists_metrics_are_those_of_its_stored_predictions(
    tmp_path: Path, digits: Dataset, share: float
) -> None:
    deciding, paths = ("val_smooth_ece", "val_own"), (f"{__name__}:own",)
    outcomes = {}
    roles: tuple[Role, ...] = ("search", "finalist")
    for role in roles:
        setup = make_setup(tmp_path / role, epochs=1, adapt_share=share)
        config = replace(CONFIG, role=role)
        setup = replace(setup, deciding_metrics=deciding, own_metrics=paths)
        run = TrialRun(digits, setup, config)
        (outcomes[role],) = entries(run, 1)
    folder = Folder(str(tmp_path / "search")) / "00007"
    rows = Rows.read(folder, "validation"), Rows.read(folder, "test")
    extent, criterion = Extent.whole(deciding, {"own": own}), None if share else "nll"
    found = completed(outcomes["search"], *rows, extent, criterion)
    assert found == outcomes["finalist"]
    names = {f"{split}_{name}" for split in ("val", "test") for name in METRIC_NAMES}
    assert names <= found.keys()
    assert 0 <= found["test_ece_low"] <= found["test_ece_high"]
    assert "val_own_low" in outcomes["search"] and "test_own_low" not in outcomes["search"]


@pytest.mark.parametrize("role", ["baseline", "finalist"])
def test_a_trial_that_is_never_stopped_uses_the_test_split_once(
    tmp_path: Path, digits: Dataset, role: Role
) -> None:
    run = TrialRun(digits, make_setup(tmp_path), replace(CONFIG, role=role))
    *before, last = entries(run, EPOCHS)
    assert not any("test_error" in entry for entry in before)
    costs = [{key for key in entry if key in COSTS} for entry in run.history]
    assert costs == [{"timestamp", "run_seconds", "training_seconds"}] * EPOCHS  # on a CPU
    assert "test_error" in last


def test_divergence_is_a_failure_with_a_reason(tmp_path: Path, digits: Dataset) -> None:
    report = start(digits, make_setup(tmp_path, lr=1e30)).advance()
    assert isinstance(report, Failed)
    assert "diverged" in report.reason


@pytest.mark.parametrize("damage", ["cut short", "flipped byte"])
def test_a_damaged_checkpoint_is_replaced_by_the_previous_one(tmp_path: Path, damage: str) -> None:
    folder = Folder(str(tmp_path))
    for epoch in (1, 2, 3):
        save_checkpoint(
            folder, epoch, {"setting": "mine", "epoch": epoch, "weights": torch.ones(100)}
        )
    names = folder.names()
    assert len(names) == 2
    path = tmp_path / names[-1]
    data = bytearray(path.read_bytes())
    if damage == "cut short":
        data = data[: len(data) // 2]
    else:
        data[len(data) // 2] ^= 1
    path.write_bytes(data)
    state = load_checkpoint(folder, "mine")
    assert state is not None and state["epoch"] == 2
    (tmp_path / names[0]).write_bytes(b"")
    assert load_checkpoint(folder, "mine") is None


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    code = (
        "import sys; from trainables.files.storage import Folder\n"
        "folder = Folder(sys.argv[1]); n = 0\n"
        "while True:\n"
        "    n += 1; folder.write('file', bytes([n % 256]) * 200_000)\n"
    )
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        deadline = time.monotonic() + 30
        while not (tmp_path / "file").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        data = Folder(str(tmp_path)).read("file")
        assert len(data) == 200_000
        assert len(set(data)) == 1
    assert Folder(str(tmp_path)).names() == ["file"]


def test_learning_rates_by_hand() -> None:
    step = TrainingConfig(epochs=100, schedule="step", milestones=(0.4, 0.6), lr_decay=0.1)
    factors = [learning_rate_factor(step, epoch) for epoch in (0, 39.9, 40, 60, 99)]
    assert factors == pytest.approx([1, 1, 0.1, 0.01, 0.01])
    cosine = TrainingConfig(epochs=100, schedule="cosine", warmup_epochs=10)
    assert learning_rate_factor(cosine, 5) == pytest.approx(0.5, abs=1e-3)
    assert learning_rate_factor(cosine, 10) == pytest.approx(1)
    assert learning_rate_factor(cosine, 55) == pytest.approx(0.5)
    assert learning_rate_factor(cosine, 100) == pytest.approx(0)
    assert learning_rate_factor(TrainingConfig(schedule="constant"), 77) == 1


def test_a_trial_depends_on_its_seed_alone(tmp_path: Path, digits: Dataset) -> None:
    results: dict[str, list[dict[str, Any]]] = {}
    for name, seed in (("one", 3), ("other", 3), ("another", 4)):
        config = TrialConfig(0, "search", Setting("focal", {"gamma": 2.0}), seed)
        run = TrialRun(digits, make_setup(tmp_path / name), config)
        torch.manual_seed(len(results))  # random state left by earlier code
        results[name] = entries(run, 2)
    assert results["one"] == results["other"]
    assert results["one"] != results["another"]


def test_a_finished_trial_reports_its_end_once_more(tmp_path: Path, digits: Dataset) -> None:
    whole = start(digits, make_setup(tmp_path))
    results = entries(whole, EPOCHS)
    checkpoints = Folder(str(tmp_path)) / "00007" / "checkpoints"
    before = checkpoints.names()
    again = start(digits, make_setup(tmp_path)).advance()
    assert isinstance(again, Progressed)
    assert again.done
    assert [without_time(entry) for entry in again.entries] == results
    assert checkpoints.names() == before


@pytest.mark.parametrize(
    "other",
    [
        {"setting": Setting("dual_focal", {"gamma": 7.0}), "seed": 5},
        {"setting": Setting("dual_focal", {"gamma": 1.0})},
        {"setting": Setting("focal", {"gamma": 1.5})},
        {"seed": 5},
        {"width": 5},
    ],
    ids=str,
)
def test_a_checkpoint_of_another_trial_is_never_taken(
    tmp_path: Path, digits: Dataset, other: dict[str, Any]
) -> None:
    def run(folder: str, **changes: Any) -> TrialRun:
        setup = make_setup(tmp_path / folder)
        options = {**setup.model_options, "width": changes.pop("width", 4)}
        config = replace(CONFIG, **{"setting": Setting("focal", {"gamma": 1.0}), **changes})
        return TrialRun(digits, replace(setup, model_options=options), config)

    whole = run("place")
    for _ in range(EPOCHS):
        whole.advance()
    taken = run("place", **other)
    (first,) = entries(taken, 1)
    assert [first] == entries(run("fresh", **other), 1)
    assert first["epoch"] == 1
    assert entries(run("place", **other), 1) == [first]  # it uses its own checkpoint


def test_a_gpu_that_is_visible_but_was_not_given_is_left_alone(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    run = start(digits, make_setup(tmp_path))
    run.advance()
    assert run._trainer is not None
    assert run._trainer.device.type == "cpu"


OWN = """
import torch
from trainables.losses import CalibrationLoss
from trainables.contract.setting import Setting
class {name}(CalibrationLoss):
    def compute(self, logits, targets, indices, features):
        raise {error}
"""


def start_own(folder: Path, digits: Dataset, name: str, error: str, **changes: Any) -> TrialRun:
    (folder / f"own_{name.lower()}.py").write_text(OWN.format(name=name, error=error))
    setup = replace(make_setup(folder / "trials"), user_paths=(str(folder),), **changes)
    return start(digits, setup, f"own_{name.lower()}:{name}")


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("name", "error", "failure"),
    [
        ("Full", "torch.OutOfMemoryError('CUDA out of memory\\nat x')", "CUDA out of memory"),
        ("Driver", "torch.AcceleratorError('CUDA error: out of memory')", "CUDA error: out of"),
        ("Host", 'RuntimeError("[enforce fail] can\'t allocate memory")', "[enforce fail] can't"),
        ("Empty", "MemoryError()", "no more is available"),
    ],
)
def test_a_trial_out_of_memory_is_retried_where_trials_share_a_gpu(
    tmp_path: Path, digits: Dataset, name: str, error: str, failure: str, share: float
) -> None:
    report = start_own(tmp_path, digits, name, error, gpu_share=share).advance()
    assert isinstance(report, OutOfMemory if share == 0.5 else Failed)
    assert report.reason.startswith(f"out of memory: {failure}")
    assert "\n" not in report.reason


def test_an_accelerator_that_fails_ends_the_process(tmp_path: Path, digits: Dataset) -> None:
    error = "torch.AcceleratorError('CUDA error: device-side assert triggered')"
    with pytest.raises(DeviceFailedError, match="AcceleratorError: CUDA error: device-side assert"):
        start_own(tmp_path, digits, "Asserting", error).advance()


@pytest.mark.parametrize(
    ("then", "failed"),
    [
        (None, False),  # the accelerator still works
        (torch.AcceleratorError("CUDA error: device-side assert triggered"), True),
        (RuntimeError("Found no NVIDIA driver on your system"), False),
    ],
)
def test_a_failed_accelerator_is_known_by_its_next_call(
    monkeypatch: pytest.MonkeyPatch, then: Exception | None, failed: bool
) -> None:
    def synchronize(device: torch.device) -> None:
        if then is not None:
            raise then

    monkeypatch.setattr(torch.accelerator, "synchronize", synchronize)
    assert has_failed(torch.device("cuda", 0), KeyError("whatever it was")) == failed
    assert not has_failed(torch.device("cpu"), KeyError("a bug"))
    full = torch.AcceleratorError("CUDA error: out of memory")
    assert not has_failed(torch.device("cuda", 0), full)


def test_a_process_keeps_to_its_share_of_a_gpu(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[float] = []
    properties = SimpleNamespace(total_memory=7000 * 2**20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, device: found.append(share)
    )
    for share, unlimited in ((0.5, False), (0.5, True), (0.15, False), (1.0, False), (2.0, False)):
        setup = replace(make_setup(tmp_path), gpu_share=share)
        run = TrialRun(digits, setup, replace(CONFIG, unlimited=unlimited), torch.device("cuda"))
        run._prepare_process()
    assert found == pytest.approx([0.4, 1.0, 0.075, 1.0, 1.0])  # the driver uses 700 MiB


def test_a_bug_in_the_users_loss_is_not_hidden(tmp_path: Path, digits: Dataset) -> None:
    with pytest.raises(KeyError, match="a bug"):
        start_own(tmp_path, digits, "Buggy", "KeyError('a bug')").advance()


def test_adaptation_and_evaluation_use_different_samples(tmp_path: Path, digits: Dataset) -> None:
    setup = make_setup(tmp_path, adapt_share=0.4)
    run = start(digits, setup, "adafocal")
    given: list[tuple[torch.Tensor, torch.Tensor]] = []
    run.advance()
    trainer = run._trainer
    assert trainer is not None
    trainer.loss.on_validation_end = lambda *split: given.append(split)  # type: ignore[method-assign]
    (entry,) = entries(run, 1)
    logits, labels = trainer.predict(digits.validation)
    judging, adapting = validation_parts(digits.validation.labels, digits, 0.4)
    assert sorted([*judging, *adapting]) == list(range(len(labels)))
    assert len(adapting) == round(0.4 * len(labels))
    ((seen, seen_labels),) = given
    assert torch.equal(seen, logits[adapting]) and torch.equal(seen_labels, labels[adapting])
    wrong = (logits[judging].argmax(1) != labels[judging]).double().mean()
    assert entry["val_error"] == pytest.approx(float(wrong))
    scaler = TemperatureScaling(criterion="nll").fit(logits[adapting], labels[adapting])
    assert entry["temperature"] == pytest.approx(float(scaler.temperature))
    kept = (Folder(str(tmp_path)) / "00007").read("predictions_validation.parquet")
    assert torch.equal(Rows.decode(kept).tensors()[0], logits[judging])


def test_a_validation_split_too_small_for_two_parts_is_refused(digits: Dataset) -> None:
    with pytest.raises(ValueError, match=r"adapt_share=0\.01 holds out 4 of 360 samples; with 10"):
        validation_parts(digits.validation.labels, digits, 0.01)


def test_where_the_storage_is_not_mounted_a_trial_waits(digits: Dataset, tmp_path: Path) -> None:
    sweep, mounted = tmp_path / "sweep", tmp_path / "elsewhere"
    (sweep / "trials").mkdir(parents=True)
    (sweep / "sweep_id").write_text("this one")
    setup = replace(make_setup(sweep / "trials"), marker=(str(sweep), "this one"))
    sweep.rename(mounted)
    run = start(digits, setup)
    away = run.advance()
    assert isinstance(away, Waiting)
    assert re.search(rf"does not see the sweep's storage, {sweep} .*mounted there", away.reason)
    (sweep / "trials").mkdir(parents=True)
    (sweep / "sweep_id").write_text("of another sweep of that name")
    assert isinstance(run.advance(), Waiting)
    shutil.rmtree(sweep)
    mounted.rename(sweep)
    before = entries(run, 1)
    sweep.rename(mounted)  # it disappears during the trial
    assert isinstance(run.advance(), Waiting)
    assert not sweep.exists()
    mounted.rename(sweep)
    found = before + entries(run, EPOCHS - 1)
    assert found == entries(start(digits, make_setup(tmp_path / "whole")), EPOCHS)


def test_finalists_are_evaluated_on_further_sets_at_their_end(
    tmp_path: Path, digits: Dataset
) -> None:
    noisy = Split(255 - digits.test.inputs, digits.test.labels)
    sets = (
        EvaluationSet("shift", "mine:noise", 2, digits.test),
        EvaluationSet("shift", "mine:noise", 2, noisy),
        EvaluationSet("ood", "upside_down", None, noisy),
    )
    data = replace(digits, evaluation_sets=sets)
    setup = replace(make_setup(tmp_path), scaling=ScalingWay("matrix"))
    run = TrialRun(data, setup, replace(CONFIG, role="finalist"))
    found = entries(run, EPOCHS)
    assert not any(name.startswith(("shift_", "ood_")) for each in found[:-1] for name in each)
    last = found[-1]
    assert run._trainer is not None
    logits, labels = run._trainer.predict(noisy)
    inside, _ = run._trainer.predict(digits.test)
    known = Rows.read(run.folder, "validation")
    scaling, _ = fit_network_scaling(known, CONFIG.setting, setup.scaling)
    assert scaling.name == "matrix"
    for ending, scaled in (("", Scaling()), ("_scaled", scaling)):
        there = M.evaluate(scaled(logits), labels)["ece"]
        mean = (M.evaluate(scaled(inside), labels)["ece"] + there) / 2
        assert last[f"shift_mine_noise_2_ece{ending}"] == pytest.approx(mean)
        sure = [torch.softmax(scaled(some), 1).amax(1) for some in (inside, logits)]
        expected = M.ood_metrics(*sure)["auroc"]
        assert last[f"ood_upside_down_auroc{ending}"] == pytest.approx(expected, abs=1e-4)
    searched = entries(TrialRun(data, make_setup(tmp_path / "b"), CONFIG), EPOCHS)
    assert not any(name.startswith(("shift_", "ood_")) for name in searched[-1])


def test_a_scaled_validation_metric_is_cross_fitted_where_nothing_is_kept_apart(
    tmp_path: Path, digits: Dataset
) -> None:
    run = start(digits, make_setup(tmp_path))
    entry = entries(run, EPOCHS)[-1]
    trainer = run._trainer
    assert trainer is not None
    logits, labels = trainer.predict(digits.validation)
    expected = M.evaluate(cross_fitted(logits, labels), labels, ("nll",))["nll"]
    assert entry["val_nll_scaled"] == pytest.approx(expected)


def test_a_trial_waits_until_its_checkpoint_can_be_read(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = make_setup(tmp_path)
    begun = entries(start(digits, setup), 2)
    run = start(digits, setup)

    def unavailable(self: Folder, name: str) -> bytes:
        raise OSError("AWS Error SLOW_DOWN during GetObject operation: HTTP response code 503")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "read", unavailable)
        for _ in range(2):
            waits = run.advance()
            assert isinstance(waits, Waiting)
            assert "cannot be read: AWS Error SLOW_DOWN" in waits.reason
    assert entries(run, 1) == begun
    assert entries(run, 1)[0]["epoch"] == 3


def test_a_checkpoint_that_vanishes_is_skipped(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = make_setup(tmp_path)
    begun = entries(start(digits, setup), 2)
    listed = Folder.names

    def with_one_more(self: Folder) -> list[str]:
        return [*listed(self), f"epoch_000003-{'0' * 16}.pt"]

    monkeypatch.setattr(Folder, "names", with_one_more)
    assert entries(start(digits, setup), 1) == begun


def test_multipliers_are_kept_by_epoch_and_class_across_an_interruption(
    digits: Dataset, tmp_path: Path
) -> None:
    setup = replace(make_setup(tmp_path), training_temperature=True)
    config = replace(CONFIG, role="finalist", setting=Setting("cals_hr", {"margin": 0.5}))
    entries(TrialRun(digits, setup, config), 2)
    run = TrialRun(digits, setup, config)
    found = entries(run, 3)
    kept = np.load(tmp_path / "00007" / "multipliers.npy")
    assert kept.shape == (EPOCHS, 10) and kept.std() > 0
    for entry, values in zip(found, kept, strict=True):
        named = [entry[f"multiplier_{name}"] for name in ("min", "mean", "max")]
        assert named == pytest.approx([values.min(), values.mean(), values.max()])
    trainer = run._trainer
    assert trainer is not None
    logits, labels = trainer.predict(digits.train)
    temperature = TemperatureScaling("ece_grid").fit(logits, labels).temperature
    assert found[-1]["training_temperature"] == temperature
    assert "training_temperature" not in found[0]
