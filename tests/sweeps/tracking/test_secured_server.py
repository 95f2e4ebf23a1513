"""A sweep with an MLflow that requires HTTPS, a password and permissions."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import mlflow
import numpy as np
import pytest
from mlflow import MlflowClient
from sklearn.datasets import load_digits

from sweeps.errors import SweepFailedError, UserError
from sweeps.search.plan import Plan
from sweeps.service.upkeep import sync_sweep
from sweeps.tracking.address import check_answers
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.reader import tracked_sweeps
from sweeps.tracking.registered_models import ModelToRegister, Registry
from sweeps.tracking.writer import MlflowWriter
from tests.builders import Noted, exported
from tests.harness import command
from tests.harness.secured_mlflow import PASSWORD, SecuredMlflow
from tests.harness.tracked import ending_of, make_records, make_store, make_sweep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SWEEP = """
name: guarded
dataset: {{name: digits, train_samples: 300}}
model: {{name: small_cnn, width: 4}}
losses: [focal]
training: {{epochs: 2, batch_size: 64, lr: 0.05}}
search: {{trials: 3}}
scheduler: {{name: none}}
selection: {{finalists: 0}}
tracking: {{uri: "{uri}", experiment: birds, register_model: true}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredMlflow]:
    with pytest.MonkeyPatch.context() as patch:
        made = SecuredMlflow(tmp_path_factory.mktemp("secured"), patch)
        yield made
        made.kill()


def test_a_sweep_needs_no_more_than_its_experiment(server: SecuredMlflow, tmp_path: Path) -> None:
    secret, birds = server.make_experiment("secret"), server.make_experiment("birds")
    server.make_user("bird", experiment=f"{birds}: EDIT")
    (tmp_path / "sweep.yaml").write_text(SWEEP.format(uri=server.uri))
    done = command.calsweep(tmp_path, "run", "sweep.yaml", "--debug", "--storage", "store")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MLflow lacks" not in done.stdout
    address = "models:/calsweep-digits@champion"
    assert "registered: models:/calsweep-digits@" in done.stdout + done.stderr
    moved = command.calsweep(tmp_path, "promote", "guarded", "--storage", "store")
    assert moved.stdout.startswith(f"promoted: {address} is version 1"), moved.stderr

    client = MlflowClient(server.uri)
    assert [found.name for found in client.search_experiments()] == ["birds"]
    runs = client.search_runs([birds])
    assert {run.info.status for run in runs} == {"FINISHED"}
    trials = [run for run in runs if "calsweep.trial" in run.data.tags]
    assert len(trials) == 3
    for run in trials:
        assert "checkpoint.pt" in {each.path for each in client.list_artifacts(run.info.run_id)}
    (parent,) = [run for run in runs if run not in trials]
    files = {each.path for each in client.list_artifacts(parent.info.run_id)}
    assert {"best.yaml", "report.html", "selection.json"} <= files

    mlflow.set_tracking_uri(server.uri)
    try:
        images = (load_digits().images[:5] * 15).astype(np.uint8)[:, None]
        model = mlflow.pyfunc.load_model(address)
        expected = model.metadata.signature.inputs.inputs[0]
        found = model.predict(np.resize(images, (5, *expected.shape[1:])).astype(expected.type))
    finally:
        mlflow.set_tracking_uri(None)
    assert np.allclose(found.sum(axis=1), 1, atol=1e-5)

    assert "digits" in command.calsweep(tmp_path, "best", MLFLOW_TRACKING_URI=server.uri).stdout
    links = command.calsweep(tmp_path, "ui", MLFLOW_TRACKING_URI=server.uri).stdout
    assert f"  birds  guarded  {server.uri}/#/experiments/{birds}/runs" in links
    assert sync_sweep("guarded", str(tmp_path / "store")).trials == 3
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(PASSWORD.encode() in data for data in written)
    assert client.search_runs([birds], "tags.role = 'sweep'")
    with pytest.raises(mlflow.MlflowException, match="Permission denied"):
        client.get_experiment(secret)


def test_what_is_missing_is_said_at_once_and_written_when_the_right_is_given(
    server: SecuredMlflow, tmp_path: Path
) -> None:
    theirs = server.make_experiment("theirs")
    server.make_user("wren")
    sweep = make_sweep("shut-out", tracking={"uri": server.uri, "experiment": "theirs"})
    records = make_records()
    store = make_store(tmp_path, sweep, records)
    messages: list[str] = []
    writer = MlflowWriter(Mirror(Plan(sweep), store), Noted(messages))
    for record in records:
        writer.submit(record)
    _wait_for(lambda: messages)
    missing = "the user 'wren' has no right to write to the experiment 'theirs'; ask for EDIT on it"
    assert writer.fault is not None and writer.fault.startswith(missing)
    with pytest.raises(SweepFailedError, match=rf"MLflow is not up to date: {missing}"):
        sync_sweep("shut-out", str(tmp_path))
    server.grant("wren", "experiment", theirs, "EDIT")
    assert writer.close(60, ending_of(records, sweep)) == 0
    assert writer.fault is None
    assert sum(missing in each for each in messages) == 1
    (tracked,) = tracked_sweeps(server.uri)
    assert tracked.name == "shut-out"


def test_to_read_is_not_enough(server: SecuredMlflow, tmp_path: Path) -> None:
    shown = server.make_experiment("shown")
    server.make_user("jay", experiment=f"{shown}: READ")
    sweep = make_sweep("onlooker", tracking={"uri": server.uri, "experiment": "shown"})
    make_store(tmp_path, sweep, make_records())
    missing = "the user 'jay' has no right to write to the experiment 'shown'; ask for EDIT on it"
    with pytest.raises(SweepFailedError, match=missing):
        sync_sweep("onlooker", str(tmp_path))


def test_an_experiment_that_may_not_be_made_is_named(server: SecuredMlflow, tmp_path: Path) -> None:
    server.make_user("robin", experiment="*: DENY")
    sweep, records = make_sweep("homeless", tracking={"uri": server.uri}), make_records()
    make_store(tmp_path, sweep, records, digest="12345678" * 8)
    made = "the user 'robin' has no right to make the experiment 'digits-123456'; ask for it"
    with pytest.raises(SweepFailedError, match=made):
        sync_sweep("homeless", str(tmp_path))


def test_a_model_that_may_not_be_registered_is_named(server: SecuredMlflow) -> None:
    attic = server.make_experiment("attic")
    server.make_user("owl", experiment=f"{attic}: EDIT", registered_model="*: DENY")
    run = MlflowClient(server.uri).create_run(attic)
    registry = Registry(server.uri, run.info.run_id, "calsweep-owls")
    model = ModelToRegister(
        "1",
        b"no program",
        exported(shape=(2,)),
        b"",
        (),
        (),
        np.zeros((2, 2), np.float32),
        None,
        "0",
    )
    refused = (
        "MLflow does not register calsweep-owls: the user 'owl' has no right to register a model "
        "as calsweep-owls; ask for EDIT"
    )
    with pytest.raises(UserError, match=refused):
        registry.add(model)


def test_unknown_users_and_certificates_are_reported(
    server: SecuredMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.act_as("admin")
    check_answers(server.uri)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong")
    with pytest.raises(UserError, match="refuses the credentials, or none were given"):
        check_answers(server.uri)
    monkeypatch.delenv("MLFLOW_TRACKING_SERVER_CERT_PATH")
    untrusted = r"self-signed certificate .*; name the file .* in MLFLOW_TRACKING_SERVER_CERT_PATH"
    with pytest.raises(UserError, match=untrusted):
        check_answers(server.uri)
    monkeypatch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", "nowhere.pem")
    with pytest.raises(UserError, match=r"'nowhere\.pem': there is no such file"):
        check_answers(server.uri)


def _wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
