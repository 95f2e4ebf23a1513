"""Earlier names of modules that moved into packages."""

import importlib
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import trainables
from trainables.data import Arrays, Images, Split
from trainables.data.core.tasks import OneClass
from trainables.export.calibrated import CalibratedClassifier
from trainables.models import make_model


@pytest.mark.parametrize("old", trainables._NEW_NAMES)
def test_a_module_is_found_under_its_earlier_name(old: str) -> None:
    module = importlib.import_module(old)
    assert module is importlib.import_module(trainables._NEW_NAMES[old])
    assert module.__name__ == module.__spec__.name == trainables._NEW_NAMES[old]


def test_names_that_users_import_are_in_the_modules_of_before() -> None:
    code = (
        "from trainables.arguments import check_integer, check_number;"
        "from trainables.data.tasks import EachPixel;"
        "from trainables.data.samples import Arrays, Images, Samples, SegmentedImages;"
        "from trainables.own_loop import Trial; import calsweep; assert Trial is calsweep.Trial"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_was_pickled_before_is_read() -> None:
    samples = Images((1, 2, 2), (0.5,), (1.0,))
    split = Split(np.zeros((1, 1, 2, 2), np.uint8), np.zeros(1, np.int64))
    data = pickle.dumps((samples, OneClass(), split), protocol=0)
    before = data.replace(b"data.kinds.samples", b"data.samples").replace(b"data.core.", b"data.")
    assert before.count(b"trainables.data.") >= 3
    assert b"data.kinds" not in before
    assert b"data.core" not in before
    read = pickle.loads(before)
    assert read[:2] == (samples, OneClass())
    assert type(read[2]) is Split


def test_a_model_that_was_saved_before_is_read() -> None:
    samples = Arrays.unscaled((3,))
    network = make_model("mlp", input_shape=(3,), num_classes=2, samples=samples)
    model = CalibratedClassifier(network, samples, 1.5, ("a", "b"))
    data = pickle.dumps(model, protocol=0)
    for new, old in ((b"export.", b""), (b"data.kinds.", b"data."), (b"data.core.", b"data.")):
        data = data.replace(b"trainables." + new, b"trainables." + old)
    assert b"ctrainables.calibrated\n" in data
    rows = torch.ones(1, 3)
    assert torch.equal(pickle.load(io.BytesIO(data))(rows), model(rows))
