"""All that leans on private or undocumented behaviour of PyTorch; nothing elsewhere does.

Each entry says what it leans on, why nothing public would do, since which version that holds, and
the test that fails when it changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import Tensor


def standard_gamma(shape: Tensor, generator: torch.Generator) -> Tensor:
    """Draw from Gamma(shape, 1), elementwise, with numbers of the generator's.

    Leans on: ``torch._standard_gamma``, private.
    Why: ``torch.distributions.Gamma`` takes no generator.
    Since: torch 1.5.
    Test: tests/trainables/losses/test_batches.py::test_mixup_weights_are_beta_distributed
    """
    return torch._standard_gamma(shape, generator=generator)


def uncompiled(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """An optimiser without the wrappers that tell torch.compile where to break a graph.

    Leans on: which methods are wrapped, that ``__wrapped__`` is the method itself, and that
    ``step`` needs nothing of its wrapper but ``torch.no_grad``.
    Why: the wrappers import ``torch._dynamo``: 3.5 s and 115 MB in every worker, which compiles
    nothing.
    Since: torch 2.3.
    Test: tests/trainables/test_trial.py::test_optimisers_load_no_compiler
    """
    bare = {
        name: inspect.unwrap(getattr(kind, name))
        for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    }
    step = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), {**bare, "step": step})


def lost_a_peer(error: Exception) -> bool:
    """Whether another worker's death broke the process group.

    Leans on: the text of gloo's errors, which are plain ``RuntimeError``.
    Why: only nccl's are ``DistError``.
    Since: torch 2.0.
    Test: tests/trainables/test_internals.py::test_the_death_of_a_worker_is_told_from_a_fault
    """
    return isinstance(error, torch.distributed.DistError) or "gloo/transport" in str(error)
