#!/usr/bin/env bash
# triton 3.9.0: a program that imports it and calls gc.freeze() before it ends, as Python's docs
# suggest before fork(), prints on stderr that nanobind leaked instances, types and functions.
# Nothing leaked: the last garbage collection skips frozen objects, and nanobind counts them as left.
# Without gc.freeze() nothing is printed.
#
# Seen with Python 3.11:
#   without gc.freeze(): 0 lines on stderr
#   with gc.freeze(): first line "nanobind: leaked 4 instances!"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv venv -q "$folder"
uv pip install -q --python "$folder" triton==3.9.0
"$folder/bin/python" - <<'PYTHON'
import subprocess
import sys

said = {}
for freeze in ("", "import gc; gc.freeze()"):
    command = [sys.executable, "-c", f"import triton\n{freeze}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said[freeze] = done.stderr.splitlines()
before, after = said.values()
print(f"without gc.freeze(): {len(before)} lines on stderr")
print(f'with gc.freeze(): first line "{after[0]}"')
assert before == []
assert after[0].startswith("nanobind: leaked") and after[0].endswith("instances!")
PYTHON
