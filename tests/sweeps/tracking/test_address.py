"""Where MLflow's store is."""

from pathlib import Path

import pytest

from sweeps.errors import UserError
from sweeps.tracking.address import make_database, tracking_uri
from sweeps.tracking.reader import tracked_sweeps
from tests.harness.tracked import (
    make_sweep,
)


@pytest.mark.parametrize(
    ("storage", "own", "environment", "expected"),
    [
        ("/a/b", None, None, "sqlite:////a/b/mlflow.db"),
        ("file:///a/b", None, None, "sqlite:////a/b/mlflow.db"),
        ("/a/b", None, "http://host:5000", "http://host:5000"),
        ("/a/b", "https://own", "http://host:5000", "https://own"),
        ("s3://bucket/x", "postgresql+psycopg://host/x", None, "postgresql+psycopg://host/x"),
    ],
)
def test_where_mlflow_is(
    monkeypatch: pytest.MonkeyPatch,
    storage: str,
    own: str | None,
    environment: str | None,
    expected: str,
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if environment is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", environment)
    assert tracking_uri(storage, make_sweep("a", tracking={"uri": own})) == expected


@pytest.mark.parametrize(
    ("storage", "own", "message"),
    [
        ("/a/b", "ftp://x", r"tracking.uri = 'ftp://x' is not allowed; allowed: .*http:"),
        ("/a/b", "mlruns", r"tracking.uri = 'mlruns' is not allowed"),
        ("nope://x", None, r"tracking.uri is missing: with a remote storage \(nope://x\)"),
    ],
)
def test_where_mlflow_cannot_be(
    monkeypatch: pytest.MonkeyPatch, storage: str, own: str | None, message: str
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UserError, match=message):
        tracking_uri(storage, make_sweep("a", tracking={"uri": own}))


def test_mlflows_database_is_made_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "mlflow.db"
    uri = f"sqlite:///{path}"
    make_database(uri)
    before = path.read_bytes()
    make_database(uri)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["mlflow.db"]
    assert tracked_sweeps(uri) == []
