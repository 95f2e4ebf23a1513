"""All components on a simulated GPU: see tests/harness/simulated_gpu.py."""

from typing import Any

import pytest

from tests.harness.on_simulated_gpu import SLOW, all_outcomes, cases, planted
from tests.harness.simulated_gpu import CAN_SIMULATE, NEEDS_NEWER_TORCH
from tests.harness.workers import in_a_process
from trainables.losses import available_losses
from trainables.models import available_models
from trainables.posthoc import available_posthoc

pytestmark = [
    pytest.mark.slow,  # a minute
    pytest.mark.timeout(900),
    pytest.mark.skipif(not CAN_SIMULATE, reason=NEEDS_NEWER_TORCH),
]

# An epoch has 2 steps, or 4 for segmentation.
_SYNCHRONISED = {
    # Ranks are computed on the CPU, where the order of summation is fixed.
    "loss r_aurc": 1 + 2 * 2,
    # The number of pixels that are not ignored is read in each step.
    "pixels": 1 + 4,
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """Outcomes of all components by name, computed in a separate process."""
    return {each["name"]: each for each in in_a_process(all_outcomes)}


def check(found: dict[str, Any]) -> None:
    assert found["error"] is None
    assert found["difference"] <= 1e-6
    assert found["without_kernel"] == []


@pytest.mark.parametrize("name", [c.name for c in cases() if not c.name.startswith(SLOW)])
def test_simulated_gpu_gives_the_numbers_of_the_cpu(
    outcomes: dict[str, dict[str, Any]], name: str
) -> None:
    found = outcomes[name]
    check(found)
    if found["synchronisations"] is not None:
        known = (count for start, count in _SYNCHRONISED.items() if name.startswith(start))
        assert found["synchronisations"] <= next(known, 1)
        assert found["in_validation"] <= 1


def test_simulated_gpu_gives_the_numbers_of_the_cpu_for_every_network(
    outcomes: dict[str, dict[str, Any]],
) -> None:
    found = {name: each for name, each in outcomes.items() if name.startswith(SLOW)}
    assert {f"{SLOW} {name}" for name in available_models()} < found.keys()
    for each in found.values():
        check(each)


def test_simulated_gpu_covers_all_registered_components() -> None:
    names = {case.name for case in cases()}
    assert all(any(n.startswith(f"loss {loss}") for n in names) for loss in available_losses())
    assert {f"posthoc {name}" for name in available_posthoc()} <= names


def test_simulated_gpu_detects_problems_of_gpus() -> None:
    expected = {
        "(x * 2 + 1).softmax(0)": [0, [], ""],
        "x.sum().item()": [1, [], ""],
        "x.cpu()": [1, [], ""],
        "x[x > 2]": [1, [], ""],
        "torch.ops.planted.double(x)": [0, ["planted::double"], ""],
        "x + torch.tensor(1.0)": [0, [], ""],  # a number may come from the CPU
        "x + torch.ones(6)": [
            0,
            [],
            "aten::add.Tensor: tensors on two devices: (6,) on simulated:0, (6,) on cpu",
        ],
    }
    assert in_a_process(planted, list(expected)) == expected
