"""Behaviour of PyTorch that :mod:`trainables.runtime.torch_internals` relies on."""

from pathlib import Path

from tests.harness.workers import run_workers
from trainables.runtime.torch_internals import lost_a_peer


def test_a_lost_peer_is_detected(tmp_path: Path) -> None:
    script = Path(__file__).with_name("dying_worker.py")
    (survivor,) = run_workers(script, tmp_path).values()
    assert survivor["lost a peer"]
    assert not lost_a_peer(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
