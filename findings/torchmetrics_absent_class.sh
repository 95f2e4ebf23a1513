#!/usr/bin/env bash
# torchmetrics 1.9.0: the macro AUROC of a perfect ranking is 2/3 if one of three classes has no
# sample: an absent class counts as 0. The macro average precision leaves the absent class out
# (NaN by class), so the two averages are over different classes.
#
# Seen with torch 2.15.0:
#   AUROC 0.6667, by class [1.0, 1.0, 0.0]; average precision 1.0000, by class [1.0, 1.0, nan]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv venv -q "$folder"
uv pip install -q --python "$folder" torchmetrics==1.9.0 torch==2.15.0
"$folder/bin/python" -W ignore - <<'PYTHON'
import math

import torch
from torchmetrics.functional.classification import multiclass_auroc, multiclass_average_precision

probs = torch.tensor([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0]])
labels = torch.tensor([0, 1])
found = []
for metric in (multiclass_auroc, multiclass_average_precision):
    found.append((float(metric(probs, labels, 3)), metric(probs, labels, 3, average=None).tolist()))
(auroc, by_class), (precision, of_classes) = found
print(f"AUROC {auroc:.4f}, by class {by_class}; ", end="")
print(f"average precision {precision:.4f}, by class {of_classes}")
assert abs(auroc - 2 / 3) < 1e-6 and by_class == [1, 1, 0]
assert precision == 1 and math.isnan(of_classes[2])
PYTHON
