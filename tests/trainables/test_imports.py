"""What a trial and a judgement import before they do anything; more would delay each start."""

import subprocess
import sys

CODE = """
import sys

def imported(*names):
    print([name for name in names if name in sys.modules])

import trainables.trials.making
imported("scipy", "sklearn", "pandas", "pyarrow", "torch._dynamo")
import sweeps.judging.judgement, sweeps.judging.reading
imported("scipy.optimize", "scipy.stats", "sklearn", "pandas", "pyarrow", "torch._dynamo")
from trainables.engine import workload
imported("triton", "torch._dynamo")
"""


def test_slow_packages_are_imported_on_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    assert done.stdout.split("\n")[:-1] == ["[]"] * 3


TRAINED = """
import sys
import torch
from trainables.losses import available_losses, make_loss

logits, features = torch.randn(6, 3, requires_grad=True), torch.randn(6, 4, requires_grad=True)
for name in available_losses():
    loss = make_loss(name, num_classes=3)
    value = loss(logits, torch.arange(6) % 3, indices=torch.arange(6), features=features)
    value.backward()
print(len(available_losses()) > 20, "torch._dynamo" in sys.modules)
"""


def test_no_loss_imports_the_compiler() -> None:
    command = [sys.executable, "-c", TRAINED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "True False\n", done.stderr
