"""Trials with custom training loops, in one process."""

import bdb
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.cuda._utils import _get_device_index

from tests.harness.object_store import BUCKET, ObjectStore
from trainables import metrics as M
from trainables.contract.config import TrainingConfig, TrialSetup
from trainables.contract.messages import COSTS, Failed, Progressed, TrialConfig
from trainables.contract.setting import Setting
from trainables.data import load_dataset
from trainables.data.core.base import Dataset, OwnData
from trainables.files.checkpoints import save_checkpoint
from trainables.files.rows import Rows
from trainables.files.storage import Folder
from trainables.trials.making import make_run
from trainables.trials.own_loop import check_trainable
from trainables.trials.reference_models import reference_models
from trainables.trials.trial import TrialRun, validation_parts

EXAMPLES = Path(__file__).parents[3] / "examples/own_loop"
CONFIG = TrialConfig(0, "search", Setting("focal", {"gamma": 2.0}), seed=3)
EPOCHS = 4


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits", seed=0, train_samples=300)


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def make_setup(place: object, loop: str = "plain:train", **changes: Any) -> TrialSetup:
    setup = TrialSetup(
        model=loop,
        model_options={"width": 8} if loop == "plain:train" else {},
        training=TrainingConfig(epochs=EPOCHS),
        trials_uri=str(place),
        outcome_epochs=(2, EPOCHS),
        own_loop=True,
    )
    return replace(setup, **changes)


def entries(run: TrialRun, reports: int) -> list[dict[str, float]]:
    found = []
    for _ in range(reports):
        report = run.advance()
        assert isinstance(report, Progressed), report
        found += [{k: v for k, v in e.items() if k not in COSTS} for e in report.entries]
    return found


def write_loop(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> str:
    """Writes a module with a loop with this body; returns its dotted path."""
    name = f"loop_{abs(hash((str(folder), body)))}"
    lines = [
        "import sys, threading, torch",
        "def train(trial):",
        "    labels = {s: trial.tensors(s)[1] for s in ('validation', 'test')}",
        "    good = {s: (torch.nn.functional.one_hot(y, 10) * 2.0, y) for s, y in labels.items()}",
        *(f"    {line}" for line in body.splitlines()),
    ]
    (folder / f"{name}.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(folder)
    return f"{name}:train"


@pytest.mark.parametrize("loss", ["focal", "adafocal", "cals_alm"])
def test_a_trial_interrupted_after_any_epoch_has_the_same_result(
    tmp_path: Path, digits: Dataset, loss: str
) -> None:
    config = TrialConfig(0, "search", Setting(loss, {}), seed=3)
    whole = make_run(digits, make_setup(tmp_path / "whole"), config)
    results = entries(whole, EPOCHS)
    assert [entry["epoch"] for entry in results] == [1, 2, 3, 4]
    assert results[-1]["val_error"] < 0.5  # it learns
    for cut in range(1, EPOCHS):
        folder = tmp_path / f"cut{cut}"
        before = make_run(digits, make_setup(folder), config)
        entries(before, cut)
        before.close()
        after = make_run(digits, make_setup(folder), config)
        # The last known epoch is trained again, because its checkpoint is written after its report.
        assert entries(after, EPOCHS - cut + 1) == results


@pytest.mark.parametrize(
    "name", ["acc@1", "", ".", "..", "../a", "/a", "a//b", "a/", "a%", "loss(x)", "x" * 251]
)
def test_a_metric_name_that_mlflow_refuses_is_refused_at_once(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    validate = pytest.importorskip("mlflow.utils.validation")
    if len(name) <= 250:
        with pytest.raises(Exception, match="Invalid"):
            validate._validate_metric_name(name)
    body = f"trial.report(1, **good, **{{{name!r}: 1.0}})"
    loop = write_loop(tmp_path, monkeypatch, body)
    report = make_run(digits, make_setup(tmp_path, loop), CONFIG).advance()
    assert isinstance(report, Failed)
    assert f"metric name {name!r} is not allowed" in report.reason
    assert "allowed: at most 250 letters" in report.reason


@pytest.mark.parametrize("name", ["acc", "a b", "a/b.c", "val:acc-1", "précision"])
def test_a_metric_name_that_mlflow_takes_is_kept(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("mlflow.utils.validation")._validate_metric_name(name)
    loop = write_loop(tmp_path, monkeypatch, f"trial.report(1, **good, **{{{name!r}: 1.0}})")
    run = make_run(digits, make_setup(tmp_path, loop), CONFIG)
    (entry,) = entries(run, 1)
    run.close()
    assert entry[name] == 1.0


@pytest.mark.parametrize("loss", ["cals_alm", "cals_hr", "adafocal"])
def test_an_epoch_may_be_reported_in_inference_mode(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    """Lightning calls its hooks so."""
    body = """for epoch in (1, 2, 3):
    with torch.{}():
        x, y = (torch.randn(30, 10) * 9, torch.arange(30) % 10)
        good = {{s: (2.0 * good[s][0], y) for s, (_, y) in good.items()}}
        trial.report(epoch, **good)
    logits = torch.zeros(4, 10, requires_grad=True)
    trial.loss(logits, torch.zeros(4, dtype=torch.int64)).backward()
    torch.save(trial.loss.state_dict(), trial.folder / str(epoch))"""
    states = []
    for mode in ("inference_mode", "no_grad"):
        folder = tmp_path / mode
        folder.mkdir()
        loop = write_loop(folder, monkeypatch, body.format(mode))
        config = replace(CONFIG, setting=Setting(loss, {}))
        run = make_run(digits, make_setup(folder, loop), config)
        entries(run, 3)
        run.close()
        states += [torch.load(path) for path in sorted(folder.rglob("2")) if path.is_file()]
    first, second = states
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_names_of_calsweeps_own_metrics_are_recorded_under_another(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = "val_loss=0.5, test_ece=2.0, temperature=3.0, train_loss=0.25"
    loop = write_loop(tmp_path, monkeypatch, f"trial.report(1, **good, {numbers})")
    with closing(make_run(digits, make_setup(tmp_path, loop), CONFIG)) as run:
        (found,) = entries(run, 1)
    own = {name: value for name, value in found.items() if name.startswith("own_")}
    assert own == {"own_val_loss": 0.5, "own_test_ece": 2.0, "own_temperature": 3.0}
    assert found["train_loss"] == 0.25 and not {"val_loss", "test_ece"} & found.keys()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int16"])
def test_labels_may_be_of_any_integer_type(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    body = f"""good = {{s: (x.numpy(), y.numpy().astype("{dtype}")) for s, (x, y) in good.items()}}
trial.report(1, **good)
trial.report(2, **{{s: (x, torch.as_tensor(y)) for s, (x, y) in good.items()}})"""
    loop = write_loop(tmp_path, monkeypatch, body)
    run = make_run(digits, make_setup(tmp_path, loop), CONFIG)
    assert len(entries(run, 2)) == 2
    run.close()


def test_what_it_reports_is_what_a_trial_has(tmp_path: Path, digits: Dataset) -> None:
    run = make_run(digits, make_setup(tmp_path), CONFIG)
    first, second, _, last = entries(run, EPOCHS)
    assert "train_loss" in first and "temperature" not in first
    assert {"temperature", "test_ece_scaled"} <= second.keys()
    logits, labels = Rows.read(Folder(str(tmp_path)) / "00000", "test").tensors()
    assert labels.tolist() == digits.test.labels.tolist()
    expected = M.evaluate(logits, labels)
    for name in M.EPOCH_METRICS:
        assert last[f"test_{name}"] == pytest.approx(expected[name], abs=1e-6), name
    assert "val_error_low" in last


def test_a_finished_trial_reports_its_end_once_more(tmp_path: Path, digits: Dataset) -> None:
    results = entries(make_run(digits, make_setup(tmp_path), CONFIG), EPOCHS)
    for file in tmp_path.rglob("own-*/*"):
        file.unlink()  # the loop would start over
    again = make_run(digits, make_setup(tmp_path), CONFIG).advance()
    assert isinstance(again, Progressed)
    assert again.done and [entry["val_nll"] for entry in again.entries] == [
        entry["val_nll"] for entry in results
    ]


def test_a_stopped_loop_runs_its_cleanup(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
try:
    for epoch in range(1, 5):
        try:
            trial.report(epoch, **good)
        except Exception:
            (trial.folder / 'swallowed').touch()
finally:
    (trial.folder / 'closed').touch()
"""
    run = make_run(digits, make_setup(tmp_path, write_loop(tmp_path, monkeypatch, body)), CONFIG)
    entries(run, 2)
    run.close()
    assert [file.name for file in tmp_path.rglob("own-*/*")] == ["closed"]
    assert not [thread for thread in threading.enumerate() if thread.name == "own-loop"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", KeyboardInterrupt),
        ("import bdb; raise bdb.BdbQuit", bdb.BdbQuit),  # the command `q` of the debugger
    ],
)
def test_an_interrupt_is_not_a_fault_of_the_loop(
    tmp_path: Path,
    digits: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    expected: type[BaseException],
) -> None:
    loop = write_loop(tmp_path, monkeypatch, f"{body}\ntrial.report(1, **good)")
    run = make_run(digits, make_setup(tmp_path, loop), CONFIG)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with closing(run), pytest.raises(expected):
            time.sleep(10 if isinstance(run.advance(), Progressed) else 0)  # the signal is late
    finally:
        signal.signal(signal.SIGINT, before)


FAULTS = {
    "{}['key']": "KeyError: 'key'",
    "sys.exit(3)": "RuntimeError: SystemExit: 3",
    "trial.report(1, **good)": "ValueError: the training loop returned after 1 epochs; it has to",
    "trial.report(2, **good)": "ValueError: epoch 2 is reported, and of this trial epochs up to 0",
    "trial.report(1, **good); trial.report(3, **good)": "epoch 3 is reported after epoch 1; report",
    "[trial.report(e, **good) for e in range(1, 6)]": "epoch 5 is reported; the trial has trial.ep",
    "trial.report(1, **good | {'validation': good['test']})": "labels are not those of the valid",
    "trial.report(1, **good | {'validation': None})": "validation is a NoneType; allowed: logits",
    "trial.report(1, validation=good['test'][0], test=None)": "validation is a Tensor; allowed: lo",
    "trial.report(1, validation=(torch.ones(3), torch.ones(3)), test=None)": "logits must have",
    "trial.report(1, validation=(torch.ones(3, 10), torch.ones(3)), test=None)": "labels must be",
    "trial.report(1, validation=(torch.ones(3, 10), 9 + torch.arange(3)), test=None)": "9 to 11",
    "x, y = good['test']; trial.report(1, validation=(x.softmax(1), y), test=None)": "validation:"
    " these are probabilities, as each row is in [0, 1] and sums to one; report logits",
    "trial.report('one', **good)": "TypeError: epoch must be an integer, got 'one'",
}


@pytest.mark.parametrize("body", FAULTS)
def test_a_fault_is_reported_with_file_and_line(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    loop = write_loop(tmp_path, monkeypatch, f"\n{body}")
    run = make_run(digits, make_setup(tmp_path, loop), CONFIG)
    report = run.advance()
    while isinstance(report, Progressed):
        report = run.advance()
    assert isinstance(report, Failed)
    assert FAULTS[body] in report.reason
    assert "\n" not in report.reason
    if "returned" not in report.reason:
        assert report.reason.endswith(f"({tmp_path / loop.partition(':')[0]}.py, line 6)")
        assert "Traceback" in report.traceback


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "y = good['validation'][1]\n"
            "trial.report(1, validation=(torch.full((len(y), 10), torch.nan), y), test=None)",
            "diverged: validation logits are not finite after epoch 1",
        ),
        (
            "trial.report(1, **good, train_loss=float('inf'))",
            "diverged: train_loss is inf in epoch 1",
        ),
        ("raise torch.OutOfMemoryError('CUDA\\nat')", "out of memory: CUDA"),
    ],
)
def test_divergence_and_memory_are_failures_as_of_all_trials(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    loop = write_loop(tmp_path, monkeypatch, body)
    found = make_run(digits, make_setup(tmp_path, loop), CONFIG).advance()
    assert found == Failed(reason, diverged=reason.startswith("diverged"))


@pytest.mark.parametrize(
    ("loss", "calls"),
    [
        ("mixup", "trial.loss.prepare_batch()"),
        ("aucm", "trial.loss.on_step_end(), trial.loss.parameter_groups()"),
    ],
)
def test_a_loss_whose_hooks_are_not_called_is_rejected(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, loss: str, calls: str
) -> None:
    config = TrialConfig(0, "search", Setting(loss, {}), seed=3)
    loop = write_loop(tmp_path, monkeypatch, "trial.report(1, **good)")
    report = make_run(digits, make_setup(tmp_path / "a", loop), config).advance()
    assert isinstance(report, Failed)
    assert f"the loss {loss} needs the training loop to call {calls}; see" in report.reason
    body = (
        "trial.loss.parameter_groups(); trial.loss.on_step_end()\n"
        "trial.loss.prepare_batch(torch.ones(2, 3), torch.ones(2).long(), augment=lambda x: x,"
        " generator=torch.Generator())\ntrial.report(1, **good)\n"
    )
    calling = write_loop(tmp_path, monkeypatch, body)
    run = make_run(digits, make_setup(tmp_path / "b", calling), config)
    entries(run, 1)
    run.close()


@pytest.mark.parametrize(
    ("body", "failed"),
    [
        ("", True),
        ("trial.loss.parameter_groups()", False),
        ("for p in trial.loss.parameters(): p.data += 1", False),  # like an optimiser
    ],
)
def test_a_loss_whose_parameters_are_not_trained_is_rejected(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, body: str, failed: bool
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    loop = write_loop(tmp_path, monkeypatch, f"{body}\ntrial.report(1, **good)")
    config = TrialConfig(0, "search", Setting("learnt:LearntPlain", {}), seed=3)
    run = make_run(digits, make_setup(tmp_path / "a", loop), config)
    report = run.advance()
    assert isinstance(report, Failed) == failed, report
    if isinstance(report, Failed):
        assert "call trial.loss.parameter_groups(); see" in report.reason
    run.close()


def test_a_loop_gets_a_gpu_by_its_number(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU: moves of tensors are patched out; torch handles the device."""
    monkeypatch.setattr(torch.cuda, "set_device", _get_device_index)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *_: None)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda _: None)
    monkeypatch.setattr(torch.nn.Module, "to", lambda module, *_: module)
    loop = write_loop(tmp_path, monkeypatch, "raise KeyError(str(trial.device))")
    run = make_run(digits, make_setup(tmp_path, loop), CONFIG, torch.device("cuda"))
    report = run.advance()
    assert isinstance(report, Failed)
    assert report.reason.startswith("KeyError: 'cuda:0'")


def test_a_loss_adapts_to_what_is_kept_for_that(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
trial.loss.on_validation_end = lambda *split: torch.save(split, trial.folder / 'seen.pt')
trial.report(1, **good)
"""
    loop = write_loop(tmp_path, monkeypatch, body)
    training = TrainingConfig(epochs=EPOCHS, adapt_share=0.4)
    run = make_run(digits, make_setup(tmp_path, loop, training=training), CONFIG)
    entries(run, 1)
    run.close()
    (file,) = tmp_path.rglob("seen.pt")
    _, adapting = validation_parts(digits.validation.labels, digits, 0.4)
    _, labels = torch.load(file)
    assert labels.tolist() == digits.validation.labels[adapting].tolist()


def test_a_loop_may_read_its_own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reads.py").write_text(
        "import torch\n"
        "def train(trial):\n"
        "    assert trial.data is None\n"
        "    y = torch.arange(6) % trial.num_classes\n"
        "    z = torch.nn.functional.one_hot(y, 3) * 4.0\n"
        "    for epoch in range(1, trial.epochs + 1):\n"
        "        trial.report(epoch, validation=(z, y), test=(z.numpy(), y.numpy()))\n"
        "    trial.tensors('train')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = make_run(OwnData("birds", 3), make_setup(tmp_path, "reads:train"), CONFIG)
    assert entries(run, 3)[-1]["val_error"] == 0
    report = run.advance()
    assert isinstance(report, Failed)
    assert report.reason.startswith("ValueError: the sweep names no dataset: the loop reads its")


def test_the_folder_of_another_setting_is_another(tmp_path: Path, digits: Dataset) -> None:
    run = make_run(digits, make_setup(tmp_path), CONFIG)
    fresh = entries(run, 3)
    run.close()
    save_checkpoint(Folder(str(tmp_path)) / "00000/checkpoints", 9, {"setting": "of another"})
    other = make_run(digits, make_setup(tmp_path), replace(CONFIG, seed=4))
    found = entries(other, 1)
    other.close()
    assert found[0]["epoch"] == 1 and found != fresh[:1]


@pytest.fixture(scope="module")
def objects() -> Iterator[str]:
    store = ObjectStore()
    address = store.environment["AWS_ENDPOINT_URL"].removeprefix("http://")
    keys = f"{store.environment['AWS_ACCESS_KEY_ID']}:{store.environment['AWS_SECRET_ACCESS_KEY']}"
    yield (
        f"s3://{keys}@{BUCKET}/trials?endpoint_override={address}&scheme=http&region=us-east-1"
        "&allow_bucket_creation=false"
    )
    store.stop()


def test_in_an_object_store_the_loops_folder_is_kept_as_one_file(
    tmp_path: Path, digits: Dataset, objects: str
) -> None:
    results = entries(make_run(digits, make_setup(tmp_path), CONFIG), EPOCHS)
    before = make_run(digits, make_setup(objects), CONFIG)
    entries(before, 3)
    before.close()
    after = make_run(digits, make_setup(objects), CONFIG)
    assert entries(after, 2) == results
    own = next(name for name in (Folder(objects) / "00000/checkpoints").names() if "own" in name)
    assert (Folder(objects) / "00000/checkpoints" / own).names() == ["own.tar"]
    after.close()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("train", {}, r"trainable 'train' is not a path; allowed: package\.module:function"),
        ("nowhere:train", {}, "trainable 'nowhere:train' cannot be imported: No module named 'now"),
        ("plain:trains", {}, "cannot be imported: module 'plain' has no attribute 'trains'"),
        ("plain:nn", {}, "trainable 'plain:nn' is a module, not a function"),
        ("math:sqrt", {}, "trainable 'math:sqrt': it does not take 'trial'"),
        ("plain:train", {"widht": 3}, r"unknown option 'widht' \(did you mean 'width'\?\)"),
        ("plain:train", {"width": "wide"}, "width='wide': expected an integer"),
    ],
)
def test_a_path_or_option_that_is_wrong_is_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_trainable(name, **options)


def test_the_example_learns_categories(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    plan, months = draw.integers(0, 12, 1200), draw.exponential(20, 1200)
    score = np.array([1.5, -1.5])[plan % 2] - 0.03 * (months - 20)  # the order of plans says little
    churned = draw.random(1200) < 1 / (1 + np.exp(-score))
    lines = [f"{p},{m:.1f},{c}" for p, m, c in zip(plan, months, churned, strict=True)]
    (tmp_path / "churn.csv").write_text("plan,months,label\n" + "\n".join(lines))
    data = load_dataset("csv", seed=0, train=tmp_path / "churn.csv", categorical=["plan"])
    references = {each.name: each.test for each in reference_models(data)}
    regression = references["logistic regression"]
    setup = make_setup(tmp_path, model_options={}, training=TrainingConfig(epochs=6))
    run = make_run(data, replace(setup, outcome_epochs=(6,)), CONFIG)
    error = entries(run, 6)[-1]["test_error"]
    assert error <= (regression.logits.argmax(1) != regression.labels).mean() + 0.01
