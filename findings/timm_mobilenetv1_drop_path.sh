#!/usr/bin/env bash
# timm 1.0.31: create_model("mobilenetv1_100", drop_path_rate=0.9) accepts the rate and builds
# DropPath modules, but calls none of them, as its blocks have no skip connection: stochastic depth
# is off. mobilenetv2_100 calls its own.
#
# Seen with torch 2.15.0:
#   mobilenetv1_100: 12 DropPath modules, 0 called
#   mobilenetv2_100: 16 DropPath modules, 10 called
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv venv -q "$folder"
uv pip install -q --python "$folder" timm==1.0.31 torch==2.15.0
"$folder/bin/python" -W ignore - <<'PYTHON'
import timm
import torch
from timm.layers import DropPath

called = {}
for name in ("mobilenetv1_100", "mobilenetv2_100"):
    model = timm.create_model(name, drop_path_rate=0.9).train()
    paths = [each for each in model.modules() if isinstance(each, DropPath)]
    used = []
    for each in paths:
        each.register_forward_hook(lambda *_: used.append(1))
    model(torch.randn(2, 3, 64, 64))
    called[name] = len(used)
    print(f"{name}: {len(paths)} DropPath modules, {len(used)} called")
    assert len(paths) > 0
assert called["mobilenetv1_100"] == 0 and called["mobilenetv2_100"] > 0
PYTHON
