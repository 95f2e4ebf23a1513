"""Hardware with native bfloat16, and models that become faster with it."""

import platform
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_breast_cancer

from trainables.data import load_dataset
from trainables.engine.precision import autocast, cpu_has_bfloat16, gains_on_cpus
from trainables.engine.workload import operations_of_layers

CPUINFO = Path("/proc/cpuinfo")


class Emulating:
    """A GPU that only emulates bfloat16."""

    @staticmethod
    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return including_emulation


def test_emulated_bfloat16_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", Emulating.is_bf16_supported)
    assert not isinstance(autocast(torch.device("cuda"), "auto"), torch.autocast)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("auto", torch.float32), ("float32", torch.float32), ("bfloat16", torch.bfloat16)],
)
def test_precision_of_a_cpu(precision: str, dtype: torch.dtype) -> None:
    with autocast(torch.device("cpu"), precision):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not CPUINFO.exists(), reason="Linux on x86 tells its flags"
)
@pytest.mark.skipif(not hasattr(torch.cpu, "get_capabilities"), reason="this torch cannot tell")
def test_cpu_features_match_linux() -> None:
    flags = CPUINFO.read_text().split()
    assert cpu_has_bfloat16() == bool({"avx512_bf16", "amx_bf16"} & set(flags))


def test_models_that_become_faster_in_bfloat16() -> None:
    digits = load_dataset("digits", seed=0)
    small, large = (
        operations_of_layers(name, {}, digits) for name in ("small_cnn", "resnet18_cifar")
    )
    assert not gains_on_cpus(128 * small)  # 1.04 times as fast
    assert gains_on_cpus(32 * large)


def test_tables_become_faster_only_with_large_batches(tmp_path: Path) -> None:
    load_breast_cancer(as_frame=True).frame.to_csv(tmp_path / "cancer.csv", index=False)
    table = load_dataset("csv", seed=0, train=tmp_path / "cancer.csv", label="target")
    found = operations_of_layers("table_mlp", {}, table)
    assert not gains_on_cpus(32 * found)  # 0.97 times as fast
    assert gains_on_cpus(128 * found)  # 1.15
