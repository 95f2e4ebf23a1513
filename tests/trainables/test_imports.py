"""What a trial and a judgement import before they do anything; more would delay each start."""

import subprocess
import sys

CODE = """
import sys

def imported(*names):
    print([name for name in names if name in sys.modules])

import trainables.trials.runs
imported("scipy", "sklearn", "pandas", "pyarrow", "torch._dynamo")
import sweeps.judging.judgement, sweeps.judging.reading
imported("scipy.optimize", "scipy.stats", "sklearn", "pandas", "pyarrow", "torch._dynamo")
from trainables.engine import workload
imported("triton", "torch._dynamo")
"""


def test_slow_packages_are_imported_on_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    assert done.stdout.split("\n")[:-1] == ["[]"] * 3
