#!/usr/bin/env bash
# torch 2.15.0: the first call of an operator made with torch.library.custom_op imports
# torch._dynamo with SymPy, hundreds of modules and seconds of CPU time, although nothing is
# compiled. The same operator, defined and implemented by torch.library.Library, imports none.
#
# Seen with Python 3.11:
#   before the first call: torch._dynamo imported in none of both
#   after it: custom_op True, Library False; SymPy: custom_op True, Library False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv venv -q "$folder"
uv pip install -q --python "$folder" torch==2.15.0 numpy
"$folder/bin/python" - <<'PYTHON'
import json
import subprocess
import sys

CUSTOM_OP = """
@torch.library.custom_op("finding::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x
"""
LIBRARY = """
library = torch.library.Library("finding", "DEF")
library.define("double(Tensor x) -> Tensor")
library.impl("double", lambda x: 2 * x, "CompositeExplicitAutograd")
double = torch.ops.finding.double
"""
LOOK = """
import json, sys, torch
seen = lambda: [name in sys.modules for name in ("torch._dynamo", "sympy")]
{define}
before = seen()
assert double(torch.ones(2)).tolist() == [2, 2]
print(json.dumps([before, seen()]))
"""
found = {}
for name, define in (("custom_op", CUSTOM_OP), ("Library", LIBRARY)):
    command = [sys.executable, "-c", LOOK.format(define=define)]
    found[name] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
print(found)
assert not any(imported for before, _ in found.values() for imported in before)
assert found["custom_op"][1] == [True, True]
assert found["Library"][1] == [False, False]
print("before the first call: torch._dynamo imported in none of both")
print("after it: custom_op True, Library False; SymPy: custom_op True, Library False")
PYTHON
