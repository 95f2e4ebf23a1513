"""All uses of private or undocumented behaviour of PyTorch.

Each entry says what it leans on, why nothing public would do, since which version that holds, and
the test that fails when it changes.
"""

from __future__ import annotations

import torch


def lost_a_peer(error: Exception) -> bool:
    """Whether another worker's death broke the process group.

    Leans on: the text of gloo's errors, which are plain ``RuntimeError``.
    Why: only nccl's are ``DistError``.
    Since: torch 2.0.
    Test: tests/trainables/runtime/test_internals.py::test_a_lost_peer_is_no_fault
    """
    return isinstance(error, torch.distributed.DistError) or "gloo/transport" in str(error)
