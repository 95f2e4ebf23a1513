"""A simulated GPU: tensors on a custom device, backed by real numbers on the CPU.

Inside :func:`simulated_gpu`, an operation on such tensors gives the numbers that the CPU gives.
What would fail or be slow on a GPU is found without one:

- an operation that mixes tensors of both devices raises;
- an operation without a CUDA kernel is recorded, by torch's own registry of kernels;
- each synchronisation is counted: a value or a tensor that is read back to the CPU.

Not simulated: memory, speed, pinned memory, NCCL, kernels that differ from the CPU's. CUDA
autocast is covered by ``tests/trainables/test_simulated_gpu_autocast.py``. Torch keeps the device
for the rest of the process and names it by a private API, so use it in a process of its own; see
``tests/harness/on_simulated_gpu.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

_NAME: Final = "simulated"
CAN_SIMULATE: Final = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
NEEDS_NEWER_TORCH: Final = "this PyTorch is too old to simulate a GPU"
DEVICE: Final = torch.device("privateuseone", 0)  # its name in torch before registration

_aten = torch.ops.aten
_READS: Final = (_aten._local_scalar_dense.default, _aten.is_nonzero.default, _aten.equal.default)
_OF_UNKNOWN_SIZE: Final = {  # the size of the result requires a synchronisation
    "aten::nonzero",
    "aten::unique",
    "aten::_unique2",
    "aten::masked_select",
    "aten::repeat_interleave.Tensor",
}
_TAKES_CPU_INDICES: Final = {
    "aten::index.Tensor",
    "aten::index_put_",
    "aten::index_put",
    "aten::_index_put_impl_",
}
_KERNELS: Final = (
    "CUDA",
    "CompositeExplicitAutograd",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


class SimulatedGpu(TorchDispatchMode):
    """Runs operations on simulated tensors, and records what a GPU would make of them.

    Attributes:
        synchronisations: How often each operation read something back.
        without_kernel: Operations that CUDA has no kernel for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.synchronisations: Counter[str] = Counter()
        self.without_kernel: set[str] = set()
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation; operations without simulated tensors run normally."""
        kwargs = kwargs or {}
        flat, _ = tree_flatten((args, kwargs))
        fakes = [each for each in flat if isinstance(each, FakeTensor)]
        simulated = [each for each in fakes if hasattr(each, "_real")]
        if len(simulated) < len(fakes):  # torch's own, by which a program knows its shapes
            return func(*args, **_on_cpu(kwargs))
        wanted = _device_type(kwargs)
        name = func.name()
        if not simulated and wanted != _NAME:
            return func(*args, **kwargs)
        if name.startswith("prim::device"):
            return args[0].fake_device
        if name.startswith("prim::"):
            return func(*args, **kwargs)
        if not _has_kernel(name):
            self.without_kernel.add(name)
        if func is _aten.copy_.default:
            return self._copy(*args)
        if name.startswith("aten::_to_copy"):
            return self._move(func, args, kwargs, wanted)
        if func in _READS:
            self.synchronisations[name] += 1
            return func(*tree_map(_real, args), **kwargs)
        _check_devices(name, flat, simulated)
        if name in _OF_UNKNOWN_SIZE or _is_indexed_by_a_mask(name, args):
            self.synchronisations[name] += 1
        return self._computed(func, args, kwargs, simulated)

    def _computed(self, func: Any, args: Any, kwargs: Any, simulated: list[FakeTensor]) -> Any:
        found = func(*tree_map(_real, args), **_on_cpu(tree_map(_real, kwargs)))
        known = {id(_real(each)): each for each in simulated}

        def back(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if id(value) not in known:
                return self._simulated(value)
            same = known[id(value)]
            if same.shape != value.shape or same.stride() != value.stride():
                with self._fake:  # reshaped in place, so the real tensor is, too
                    func(*args, **kwargs)
            return same

        return tree_map(back, found)

    def _copy(self, target: Tensor, source: Tensor, *_: Any) -> Tensor:
        if isinstance(source, FakeTensor) and not isinstance(target, FakeTensor):
            self.synchronisations["copy to the CPU"] += 1
        _real(target).copy_(_real(source))
        return target

    def _move(self, func: Any, args: tuple[Any, ...], kwargs: Any, wanted: str | None) -> Tensor:
        source = args[0]
        if wanted == "cpu" and isinstance(source, FakeTensor):
            self.synchronisations["move to the CPU"] += 1
        found = func(_real(source), *args[1:], **_on_cpu(kwargs))
        stays = wanted is None and isinstance(source, FakeTensor)
        if wanted != _NAME and not stays:
            return found  # type: ignore[no-any-return]
        return self._simulated(found.clone() if found is _real(source) else found)

    def _simulated(self, real: Tensor) -> FakeTensor:
        with torch.no_grad():
            meta = torch.empty_strided(real.size(), real.stride(), dtype=real.dtype, device="meta")
        found = FakeTensor(self._fake, meta, DEVICE)
        found._real = real  # type: ignore[attr-defined]
        return found


_active: Final[list[SimulatedGpu]] = []


def in_this_thread() -> SimulatedGpu:
    """The context of :func:`simulated_gpu` for a thread that was started in it."""
    return _active[-1]


@cache
def register() -> None:
    """Make the device known to torch; in its process, call this before the first backward pass."""
    backend_registration._setup_privateuseone_for_python_backend(_NAME)


@contextmanager
def simulated_gpu() -> Iterator[SimulatedGpu]:
    """Make :data:`DEVICE` usable; import lazily imported modules before."""
    register()
    generator = torch.Generator
    replaced: Callable[..., torch.Generator] = lambda device="cpu": generator()  # noqa: E731
    gpu = SimulatedGpu()
    _active.append(gpu)
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with mock.patch.object(torch, "Generator", replaced), gpu:
            yield gpu
    finally:
        _active.remove(gpu)
        torch._C._set_only_lift_cpu_tensors(False)


@cache
def _has_kernel(name: str) -> bool:
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in _KERNELS)


def _device_type(kwargs: dict[str, Any]) -> str | None:
    device = kwargs.get("device")
    return None if device is None else torch.device(device).type


def _real(value: Any) -> Any:
    return value._real if isinstance(value, FakeTensor) else value  # type: ignore[attr-defined]


def _on_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    found = dict(kwargs)
    if _device_type(kwargs) == _NAME:
        found["device"] = torch.device("cpu")
    if "pin_memory" in kwargs:
        found["pin_memory"] = False
    return found


def _check_devices(name: str, flat: list[Any], simulated: list[FakeTensor]) -> None:
    """Reject CPU tensors, except scalars and indices, which CUDA accepts, too."""
    others = [
        x for x in flat if isinstance(x, Tensor) and not isinstance(x, FakeTensor) and x.dim()
    ]
    if simulated and others and name not in _TAKES_CPU_INDICES:
        shapes = ", ".join(f"{tuple(x.shape)} on {x.device}" for x in [*simulated, *others])
        raise RuntimeError(f"{name}: tensors on two devices: {shapes}")


def _is_indexed_by_a_mask(name: str, args: tuple[Any, ...]) -> bool:
    return name == "aten::index.Tensor" and any(
        isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1]
    )
