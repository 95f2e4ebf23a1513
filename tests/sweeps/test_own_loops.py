"""Sweeps with custom training loops."""

import importlib
import io
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from calsweep import load
from sweeps.errors import SweepFailedError, UserError
from sweeps.planning.checks import check_sweep
from sweeps.planning.data import data_of
from sweeps.planning.preview import plan_facts
from sweeps.results.best import as_sweep_file
from sweeps.search.plan import Plan
from sweeps.service.course import EndedSweep
from sweeps.service.delivery.exporting import export_model
from sweeps.service.delivery.predicting import predict
from sweeps.service.reading.finding import find_best
from sweeps.service.running import run_sweep
from sweeps.store.identity import identify
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import load_sweep, parse_sweep
from sweeps.sweep_file.schema import SweepFile
from tests.builders import handed_out
from tests.harness.command import calsweep
from tests.harness.interrupting import wait_for_cpus
from tests.harness.tracked import client_of, runs_of
from tests.harness.trained import train_sweep
from trainables.contract.messages import COSTS
from trainables.contract.setting import Setting
from trainables.data import load_dataset

EXAMPLES = Path(__file__).parents[2] / "examples/own_loop"
MORTAL = """
import os, signal
import plain

def train(trial, deaths):
    report = trial.report
    def dies(epoch, **values):
        if epoch == 2 and deaths:
            mark = trial.folder / 'died'
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        report(epoch, **values)
    trial.report = dies
    plain.train(trial)

def broken(trial):
    raise KeyError('a bug of the user')
"""
PARALLEL = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def train(trial):
    assert trial.num_workers == dist.get_world_size() == 2 and trial.rank == dist.get_rank()
    x, y = trial.tensors('train')
    torch.manual_seed(trial.seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.5)
    for epoch in range(1, trial.epochs + 1):
        mine = slice(trial.rank, None, 2)
        value = trial.loss(parallel(x[mine]), y[mine])  # of all rows, on every worker
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        with torch.no_grad():
            outputs = {s: (model(trial.tensors(s)[0]), trial.tensors(s)[1])
                    for s in ('validation', 'test')}
        trial.report(epoch, **outputs, train_loss=value.item())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working folder with the examples."""
    made = tmp_path_factory.mktemp("loops") / "here"
    shutil.copytree(EXAMPLES, made, ignore=shutil.ignore_patterns("__pycache__"))
    (made / "own.yaml").write_text(
        "name: own\ndataset: {name: own, num_classes: 3, title: birds}\ntrainable: plain:train\n"
        "losses: [focal]\n"
    )
    (made / "mortal.py").write_text(MORTAL)
    (made / "parallel.py").write_text(PARALLEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.setattr(sys, "path", [str(made), *sys.path])
        yield made


def sweep_of(**sections: Any) -> SweepFile:
    return parse_sweep(
        {
            "name": "loops",
            "dataset": {"name": "digits", "train_samples": 300},
            "trainable": "plain:train",
            "losses": ["focal"],
            "training": {"epochs": 4},
            "search": {"trials": 3, "sampler": "tpe"},
            "selection": {"finalists": 0},
            "scaling": {"max_concurrent": 1},  # one process to start
            **sections,
        }
    )


def run(folder: Path, sweep: SweepFile, debug: bool = False) -> EndedSweep:
    return run_sweep(sweep, str(folder / "store"), debug=debug, console=Console(quiet=True))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["plain", "with_lightning", "with_transformers"])
def test_an_example_loop_is_swept_like_a_model(folder: Path, ray_session: None, name: str) -> None:
    sweep = load_sweep(f"{name}.yaml", ["scaling.max_concurrent=1", "search.trials=2"])
    check_sweep(sweep)
    result = run(folder, sweep, debug=name != "with_lightning")  # that on Ray
    assert {record.state for record in result.records} <= {"finished", "stopped"}, [
        record.reason for record in result.records
    ]
    assert {record.role for record in result.records} >= {"baseline", "published", "finalist"}
    chosen = result.result.selected
    assert chosen is not None and chosen.test["error"] < 0.5 and result.result.verdict is not None
    assert result.unsynced == 0
    storage = str(folder / "store")
    (best,) = find_best(storage, None, f"{name}:train", None).entries
    assert (best.dataset, best.loss) == ("digits", chosen.loss)
    run_of_baseline = runs_of(folder / "store", name)["0"]
    assert run_of_baseline.data.params["model"] == f"{name}:train"
    assert run_of_baseline.data.params["epochs"] == "6"
    assert "lr" not in run_of_baseline.data.params
    found = client_of(folder / "store").list_artifacts(run_of_baseline.info.run_id)
    assert {"checkpoint", "predictions_test.parquet"} <= {file.path for file in found}
    export_model(name, storage)  # which compares it with the trial's predictions
    samples = load_dataset("digits", seed=0).test.inputs.copy()
    probs = load(storage, name).model().predict_proba(samples)
    assert probs.shape == (359, 10) and np.allclose(probs.sum(1), 1, atol=1e-5)


@pytest.mark.slow
def test_a_trial_whose_process_dies_continues_from_its_folder(
    folder: Path, ray_session: None
) -> None:
    def history(name: str, deaths: bool) -> list[dict[str, float]]:
        loop = {"name": "mortal:train", "deaths": deaths}
        sweep = sweep_of(
            name=name,
            trainable=loop,
            scheduler={"name": "none"},
            search={"trials": 1, "sampler": "tpe"},
        )
        (record,) = run(folder, sweep, debug=not deaths).records
        assert record.state == "finished"
        return [{k: v for k, v in entry.items() if k not in COSTS} for entry in record.history]

    dying, whole = history("dying", True), history("whole", False)
    assert len(dying) == 4
    assert dying == whole
    assert len(list((folder / "store/sweeps/dying").rglob("own-*/died"))) == 1


@pytest.mark.slow
def test_an_error_in_the_loop_is_the_reason_of_the_failure(folder: Path) -> None:
    sweep = sweep_of(name="broken", trainable="mortal:broken")
    with pytest.raises(SweepFailedError, match="a bug of the user"):
        run(folder, sweep, debug=True)
    records = SweepStore(str(folder / "store"), "broken").load_records()
    line = MORTAL.splitlines().index("    raise KeyError('a bug of the user')") + 1
    place = f"({folder / 'mortal.py'}, line {line})"
    assert {record.reason for record in records} == {f"KeyError: 'a bug of the user' {place}"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_loop_of_two_workers(folder: Path, ray_session: None) -> None:
    sweep = sweep_of(
        name="parallel",
        trainable="parallel:train",
        scaling={"num_workers": 2},
        search={"trials": 1, "sampler": "tpe"},
        scheduler={"name": "none"},
    )
    (record,) = run(folder, sweep).records
    wait_for_cpus()  # of the workers
    assert record.state == "finished", record.reason
    losses = [entry["train_loss"] for entry in record.history]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 2.2
    storage = str(folder / "store")
    with pytest.raises(UserError, match=r"was trained by a loop of your own.*trainable\.load"):
        export_model("parallel", storage)
    with pytest.raises(UserError, match="was trained by a loop of your own"):
        load(storage, "parallel").model()


OWN = {"name": "own", "num_classes": 3, "title": "birds"}


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            {**OWN, "num_classes": 1},
            "takes title, what the data are called, and num_classes",
        ),
        ({**OWN, "num_classes": True}, "takes title"),
        ({**OWN, "title": None}, "takes title"),
        ({**OWN, "train": "x"}, "and nothing else"),
    ],
)
def test_own_data_need_a_title_and_the_number_of_classes(
    dataset: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        sweep_of(dataset=dataset)
    with pytest.raises(UserError, match="is for data that a training loop of your own reads; giv"):
        sweep_of(dataset=OWN, trainable=None)


def test_own_data_are_identified_by_title_and_classes(folder: Path) -> None:
    sweep = sweep_of(dataset=OWN)
    check_sweep(sweep)
    identity = identify(sweep.named, data_of(sweep))
    assert identity.classes == ("0", "1", "2")
    assert identity == identify(sweep.named, data_of(sweep_of(dataset=OWN)))
    other = sweep_of(dataset={**OWN, "title": "bees"})
    assert identity.digest != identify(other.named, data_of(other)).digest
    done = calsweep(folder, "check", "own.yaml")
    assert done.returncode == 0, done.stderr
    assert "read by the loop: 3 classes" in done.stdout
    assert "trained by" in done.stdout


READER = """
import numpy as np, torch
draw = np.random.default_rng(0)
LABELS = torch.from_numpy(draw.integers(3, size=120))
INPUTS = torch.nn.functional.one_hot(LABELS, 3).float()
INPUTS += 0.3 * torch.from_numpy(draw.normal(size=(120, 3))).float()

def train(trial):
    assert trial.data is None
    model = torch.nn.Linear(3, 3)
    for epoch in range(1, trial.epochs + 1):
        logits = model(INPUTS).detach()
        trial.report(epoch, validation=(logits[:60], LABELS[:60]), test=(logits[60:], LABELS[60:]))
    torch.save(model.state_dict(), trial.folder / "last.pt")

def load(trial):
    assert trial.data is None
    model = torch.nn.Linear(3, 3)
    model.load_state_dict(torch.load(trial.folder / "last.pt"))
    return model, INPUTS[60:70]

def forget(trial):
    return load(trial)[0]
"""


def test_a_loop_with_its_own_data_hands_out_its_model(folder: Path) -> None:
    (folder / "reader.py").write_text(READER)
    loop = {"name": "reader:train", "load": "reader:load"}
    sweep = sweep_of(name="reader", dataset=OWN, trainable=loop, training={"epochs": 1})
    check_sweep(sweep)
    store = train_sweep(folder / "store", sweep, [])
    made, _ = export_model("reader", store.storage, str(folder / "model"))
    reader = importlib.import_module("reader")
    np.save(folder / "new.npy", reader.INPUTS[60:].numpy())
    table = io.StringIO()
    predict(made, str(folder / "new.npy"), table)
    found = np.loadtxt(table.getvalue().splitlines()[1:], delimiter=",", usecols=(3, 4, 5))
    assert np.allclose(found, handed_out(store, 0), atol=1e-6)
    model = load(store.storage, "reader").model()
    assert np.allclose(model.predict_proba(reader.INPUTS[60:].numpy()), found, atol=1e-6)
    loop["load"] = "reader:forget"
    other = sweep_of(name="other", dataset=OWN, trainable=loop, training={"epochs": 1})
    train_sweep(folder / "store", other, [])
    with pytest.raises(UserError, match=r"returned no inputs; .* the inputs of the first samples"):
        export_model("other", store.storage)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"model": "mlp"}, "model is not possible together with trainable, whose loop makes and"),
        ({"encoder": {}}, "encoder is not possible together with trainable"),
        ({"evaluation": {"ood": ["digits"]}}, "evaluation is not possible together with trainab"),
        (
            {"training": {"epochs": 2, "lr": 0.3}},
            r"training\.lr is not for a trainable.*allowed: epochs, patience.*\{name",
        ),
    ],
)
def test_keys_that_a_loop_ignores_are_rejected(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        sweep_of(**sections)


def test_a_wrong_path_or_option_is_reported_before_anything_starts(folder: Path) -> None:
    check_sweep(sweep_of())
    for loop in ("nowhere:train", "plain", {"name": "plain:train", "depth": 3}):
        with pytest.raises(UserError, match=r"trainable: trainable '(nowhere|plain)"):
            check_sweep(sweep_of(trainable=loop))
    unknown = {"name": "plain:train", "load": "plain:lod"}
    with pytest.raises(UserError, match=r"trainable\.load: .*plain:lod"):
        check_sweep(sweep_of(trainable=unknown))


def test_the_plan_says_what_trains() -> None:
    facts = plan_facts(Plan(sweep_of(trainable={"name": "plain:train", "width": 9})))
    assert facts["trained by"] == "plain:train,width=9"
    assert not {"model", "precision"} & facts.keys()


def test_the_best_setting_is_trained_by_the_same_loop() -> None:
    sweep = sweep_of()
    setting = Setting("focal", {"gamma": 2.0})
    again = parse_sweep(as_sweep_file(setting, sweep.model_dump(mode="json")))
    assert again.trainable == sweep.trainable
