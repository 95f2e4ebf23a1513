"""Batch norms over workers give what one process gives, whatever else they do."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.harness.workers import run_workers
from trainables.batch_norm import synchronised

KINDS = ("plain", "with activation", "with parameters")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    script = Path(__file__).with_name("batch_norm_worker.py")
    return run_workers(script, tmp_path_factory.mktemp("workers"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bfloat16", [False, True])
def test_two_workers_normalise_as_one_does(
    results: dict[str, Any], kind: str, bfloat16: bool
) -> None:
    alone, *workers = (results[name][kind, bfloat16] for name in ("alone", "worker0", "worker1"))
    close: dict[str, float] = (
        {"atol": 0.1, "rtol": 0.05} if bfloat16 else {"atol": 1e-5, "rtol": 1e-5}
    )
    for name, value in alone.items():
        if name in ("out", "evaluated"):
            found = torch.cat([worker[name] for worker in workers])
        elif name.startswith("gradient"):
            found = workers[0][name] + workers[1][name]
        else:
            found = workers[0][name]
            assert torch.equal(found, workers[1][name])
        torch.testing.assert_close(found, value, **close, msg=name)


class Scaled(nn.BatchNorm2d):
    """Does something after it has normalised."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


def test_a_batch_norm_that_may_do_more_is_refused() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), Scaled(2))
    with pytest.raises(ValueError, match=r"sync_batch_norm: layer '1' is a \S+\.Scaled, of which"):
        synchronised(model, torch.device("cpu"))
    assert type(model[1]) is Scaled
