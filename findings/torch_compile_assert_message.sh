#!/usr/bin/env bash
# torch 2.15.0: inside a compiled function, an assertion on a tensor stays in the graph if its
# message is constant, and breaks the graph if the message is formatted from a tensor, although the
# message is needed only on failure.
#
# Seen:
#   constant message: 1 graphs, 0 breaks
#   formatted message: 2 graphs, 1 breaks
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv venv -q "$folder"
uv pip install -q --python "$folder" torch==2.15.0 numpy==2.4.6
cat > "$folder/seen.py" <<'PYTHON'
import torch


def constant(x):
    assert (x >= 0).all(), "negative"
    return x + 1


def formatted(x):
    assert (x >= 0).all(), f"negative: {x.min()}"
    return x + 1


seen = []
for function in (constant, formatted):
    found = torch._dynamo.explain(function)(torch.ones(3))
    seen.append((found.graph_count, found.graph_break_count))
    print(f"{function.__name__} message: {found.graph_count} graphs, {found.graph_break_count} breaks")
assert seen == [(1, 0), (2, 1)]
PYTHON
"$folder/bin/python" -W ignore "$folder/seen.py"
