"""Private or undocumented behaviour of PyTorch that calsweep relies on."""

import torch


def lost_a_peer(error: Exception) -> bool:
    """Whether the death of another worker broke the process group.

    Relies on: the text of gloo's errors, which are plain ``RuntimeError``.
    Why: only errors of nccl are ``DistError``.
    Since: torch 2.0.
    Test: tests/trainables/runtime/test_torch_internals.py::test_a_lost_peer_is_detected
    """
    return isinstance(error, torch.distributed.DistError) or "gloo/transport" in str(error)
