"""The contract of a backend, for Ray Tune and for the training in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.errors import UserError
from sweeps.search.record import TrialRecord
from sweeps.service.course import EndedSweep
from sweeps.service.running import resume_sweep, run_sweep
from tests.builders import make_sweep
from tests.harness.command import calsweep
from tests.harness.interrupting import interrupted, wait_for_cpus
from tests.harness.small_sweeps import OWN_LOSSES, of, run
from tests.harness.workplace import workplace_of
from trainables.contract.messages import COSTS

LOSSES = [f"own_losses:{name}" for name in ("Exploding", "Greedy", "Broken", "Constant")]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("workplace")
    with workplace_of(folder, own_losses=OWN_LOSSES):
        yield folder


def mixed(folder: Path, debug: bool) -> EndedSweep:
    """Trials that fail, learn nothing, or are stopped."""
    return run(
        folder,
        "here" if debug else "ray",
        debug,
        losses=[*LOSSES, "label_smoothing"],
        search={"trials": 8, "sampler": "tpe"},
        training={"epochs": 4, "batch_size": 64, "lr": 0.05},
    )


@pytest.fixture(scope="module")
def here(workplace: Path) -> EndedSweep:
    return mixed(workplace, True)


@pytest.fixture(scope="module")
def on_ray(workplace: Path, ray_session: None) -> EndedSweep:
    return mixed(workplace, False)


RESULTS = [
    pytest.param("here", marks=pytest.mark.slow),
    pytest.param("on_ray", marks=pytest.mark.slow),
]


@pytest.fixture
def result(request: pytest.FixtureRequest) -> EndedSweep:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, EndedSweep)
    return found


@pytest.mark.parametrize("result", RESULTS, indirect=True)
@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        ("Exploding", "diverged: training loss is nan in epoch 1"),
        ("Greedy", "out of memory: CUDA out of memory"),
        ("Broken", "a bug of the user's"),
    ],
)
def test_a_trial_that_cannot_continue_is_failed_with_its_reason(
    result: EndedSweep, loss: str, reason: str
) -> None:
    record = of(result, loss)
    assert record.state == "failed"
    assert record.reason is not None and reason in record.reason


@pytest.mark.parametrize("result", RESULTS, indirect=True)
def test_a_constant_classifier_is_never_selected(result: EndedSweep) -> None:
    constant = of(result, "Constant")
    assert constant.state == "finished"
    assert constant.outcome["val_ece"] < result.records[0].outcome["val_ece"] + 0.1
    assert constant.outcome["val_error"] > 0.5
    selected = result.result.selected
    assert selected is not None and selected.loss != "own_losses:Constant"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["here", "ray"])
def test_the_log_has_the_traceback_of_a_failed_trial(
    workplace: Path, here: EndedSweep, on_ray: EndedSweep, name: str
) -> None:
    assert "own_losses.py" in (workplace / f"store/sweeps/{name}/driver.log").read_text()


@pytest.mark.slow
def test_both_give_the_same_trials_and_numbers(here: EndedSweep, on_ray: EndedSweep) -> None:
    def known(record: TrialRecord) -> object:
        history = [
            {name: value for name, value in entry.items() if name not in COSTS}
            for entry in record.history
        ]
        return record.role, record.setting, record.seed, record.state, record.reason, history

    assert [known(r) for r in here.records] == [known(r) for r in on_ray.records]


@pytest.mark.slow
@pytest.mark.parametrize("debug", [True, False])
def test_an_interrupted_sweep_continues_from_its_checkpoints(
    workplace: Path, ray_session: None, debug: bool
) -> None:
    name = f"cut-{debug}"
    options = {"losses": ["label_smoothing"], "search": {"trials": 2, "sampler": "tpe"}}
    options |= {"selection": {"finalists": 0}, "training": {"epochs": 12, "batch_size": 8}}
    options |= {"scheduler": {"name": "none"}}
    folder = workplace / f"store/sweeps/{name}"
    caught = interrupted(lambda: run(workplace, name, debug, **options), folder)
    assert f"calsweep resume {name}" in str(caught.value)
    if not debug:  # even if the traceback is kept alive, as in a notebook
        wait_for_cpus()
    records = resume_sweep(name, str(workplace / "store"), debug=debug).records
    assert {(record.state, record.epochs) for record in records} <= {
        ("finished", 12),
        ("stopped", 4),
    }
    assert len(records[0].runs) == 2


STOPPED = """
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

class Stopped(CalibrationLoss):
    def compute(self, logits, targets, indices, features):
        breakpoint()
        return cross_entropy(logits, targets)
"""
SMALL = """
name: small
dataset: {name: digits, train_samples: 64}
model: {name: small_cnn, width: 2}
losses: ["stopped:Stopped"]
training: {epochs: 1}
search: {trials: 2}
selection: {finalists: 0}
"""


@pytest.mark.slow
def test_a_breakpoint_in_a_loss_stops_there_and_can_end_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "stopped.py").write_text(STOPPED)
    (tmp_path / "small.yaml").write_text(SMALL)
    typed = "import sys\np 'ray' in sys.modules\np 'logits', tuple(logits.shape)\nq\n"
    done = calsweep(tmp_path, "run", "small.yaml", "--debug", "--storage", "store", typed=typed)
    assert "(Pdb) False\n" in done.stdout  # Ray is not imported
    assert "('logits', (16, 10))" in done.stdout, done.stderr
    assert "resume small" in done.stderr


@pytest.mark.parametrize(
    ("scaling", "address", "message"),
    [
        ({}, "auto", r"address = auto: not allowed with debug"),
        ({"num_workers": 2}, None, r"scaling.num_workers = 2 is not allowed with debug"),
    ],
)
def test_what_one_process_cannot_do_is_refused(
    tmp_path: Path, scaling: dict[str, object], address: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run_sweep(make_sweep(scaling=scaling), str(tmp_path), address=address, debug=True)
    assert not list(tmp_path.iterdir())
