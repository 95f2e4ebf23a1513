"""Training steps as CUDA graphs: a step is launched at once instead of kernel by kernel.

A step of a small network takes a GPU less time than Python needs to launch its few hundred kernels.
"""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.engine.feed import Batch
from trainables.runtime.devices import is_out_of_memory

_OBSERVED = 3  # steps that run as they are: the first ones create states and choose algorithms

Step = Callable[[Batch, int], Tensor]
"""A training step on the batch of this worker and the size of the whole batch; its loss."""


class CapturedSteps:
    """Runs training steps on a GPU, after the first ones by replaying a CUDA graph.

    A graph repeats kernels and addresses, but no Python code. Therefore a step is captured only if
    the observed ones changed no more than the values of tensors: no number, list or other attribute
    of ``modules``, and no random numbers drawn on the CPU. Graphs are captured anew if such an
    attribute has changed between epochs. If a step cannot be captured, for example because it reads
    a value from the GPU, all run as they are, and a warning says so.

    Args:
        step: The step. Its loss keeps its value until the next step.
        modules: All modules that a step calls.
        generator: The generator of random numbers of a step, besides the GPU's own.
        device: The GPU.
    """

    def __init__(
        self,
        step: Step,
        modules: Sequence[nn.Module],
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self._step = step
        self._modules = modules
        self._generator = generator
        self._device = device
        self._stream = _stream_of(device)
        self._graphs: dict[object, _Graph] = {}
        self._observed = 0
        self._attributes: object = None
        self._works = True

    @contextmanager
    def epoch(self) -> Iterator[Step]:
        """Context of the steps of an epoch, which run on a stream of their own."""
        if self._graphs and self._attributes != attributes_of(self._modules):
            self._graphs.clear()
        before = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(before)
        with torch.cuda.stream(self._stream):
            yield self._run
        before.wait_stream(self._stream)

    def _run(self, batch: Batch, size: int) -> Tensor:
        if not self._works:
            return self._step(batch, size)
        if self._observed < _OBSERVED:
            return self._observe(batch, size)
        key = size, *((each.shape, each.dtype) for each in batch)
        if key not in self._graphs:
            try:
                self._graphs[key] = self._capture(batch, size)
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                self._give_up(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
                return self._step(batch, size)
        return self._graphs[key].replay(batch)

    def _observe(self, batch: Batch, size: int) -> Tensor:
        before = attributes_of(self._modules), _random_numbers_of_cpu()
        loss = self._step(batch, size)
        self._observed += 1
        after = attributes_of(self._modules), _random_numbers_of_cpu()
        if self._observed > 1 and after != before:  # the first step may create something
            self._give_up(
                "a step changes an attribute of the model or the loss, or draws random numbers on "
                "the CPU"
            )
        return loss

    def _capture(self, batch: Batch, size: int) -> "_Graph":
        self._attributes = attributes_of(self._modules)
        inputs = batch[0].clone(), batch[1].clone(), batch[2].clone()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        pool = next((other.graph.pool() for other in self._graphs.values()), None)
        generators = self._generator, torch.cuda.default_generators[self._stream.device_index]
        states = [each.get_state() for each in generators]
        try:
            with torch.cuda.graph(
                graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"
            ):
                loss = self._step(inputs, size)
        except Exception:
            # A generator that took part in a failed capture refuses to draw afterwards.
            for each, state in zip(generators, states, strict=True):
                fresh = torch.Generator(self._device)
                fresh.set_state(state)
                each.graphsafe_set_state(fresh.graphsafe_get_state())
            raise
        return _Graph(graph, inputs, loss)

    def _give_up(self, reason: str) -> None:
        self._works = False
        self._graphs.clear()
        warnings.warn(
            f"training steps are not captured as CUDA graphs, and take longer: {reason}",
            stacklevel=2,
        )


@cache  # a new stream would keep workspaces of the libraries, 66 MiB on an H100, for good
def _stream_of(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, eq=False)
class _Graph:
    """A captured step, with the addresses of its inputs and its loss."""

    graph: torch.cuda.CUDAGraph
    inputs: Batch
    loss: Tensor

    def replay(self, batch: Batch) -> Tensor:
        for own, given in zip(self.inputs, batch, strict=True):
            own.copy_(given, non_blocking=True)
        self.graph.replay()
        return self.loss


def attributes_of(modules: Sequence[nn.Module]) -> object:
    """All attributes of modules and of those inside; of tensors, the addresses."""
    return [_comparable(vars(part)) for module in modules for part in module.modules()]


def _comparable(value: Any) -> object:
    if isinstance(value, Tensor):
        return value.data_ptr()
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(each) for each in value]
    known = value is None or isinstance(value, bool | int | float | complex | str | bytes)
    return value if known else id(value)


def _random_numbers_of_cpu() -> object:
    """The states of the generators that Python code uses."""
    numpys = np.random.get_state(legacy=False)  # noqa: NPY002 - of code that is not ours
    return (
        torch.get_rng_state().tolist(),
        random.getstate(),
        numpys["state"]["key"].tobytes(),
        numpys["state"]["pos"],
    )
