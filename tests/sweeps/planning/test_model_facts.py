"""Whether a model can be exported after training, tried before."""

import pytest

from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.data_preview import model_facts
from tests.builders import make_sweep
from trainables.data.core.base import Dataset

BRANCHING = """
from torch import nn

class Branching(nn.Sequential):
    def forward(self, x):
        return super().forward(x * 2 if x.sum() > 0 else x)

def build():
    return Branching(nn.Flatten(), nn.Linear(64, 10))
"""


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("mlp", "possible, as a program"),
        ("branching:build", "not possible after training: the model cannot be exported: "),
    ],
)
def test_the_export_is_tried(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    said: str,
) -> None:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "branching.py").write_text(BRANCHING)
    monkeypatch.syspath_prepend(folder)
    data = {"name": "digits", "train_samples": 200}
    sweep = make_sweep(model={"name": model}, dataset=data, training={"epochs": 1})
    dataset = load_data(sweep)
    assert isinstance(dataset, Dataset)
    assert model_facts(fit_to_data(sweep, dataset), dataset)["export"].startswith(said)
