"""A sweep is checked while Ray starts."""

from pathlib import Path

import psutil
import pytest

from sweeps.cluster.worker_server import worker_server
from sweeps.errors import UserError
from sweeps.service.running import run_sweep
from sweeps.sweep_file.loading import load_sweep


@pytest.mark.slow
@pytest.mark.usefixtures("without_ray")
def test_a_wrong_value_ends_the_ray_that_was_starting(tmp_path: Path) -> None:
    sweep = load_sweep("quickstart", ["losses=[{name: focal, hyperparameters: {gamma: -1}}]"])
    worker_server()  # it stays, for the next sweep of this process
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    with pytest.raises(UserError, match=r"losses: .*gamma.*-1"):
        run_sweep(sweep, str(tmp_path / "store"))
    assert {each.pid for each in psutil.Process().children(recursive=True)} <= before
    assert list(tmp_path.iterdir()) == []
