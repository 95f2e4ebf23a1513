#!/usr/bin/env bash
# scikit-learn 1.9.1: HistGradientBoostingClassifier supports missing values, but cannot fit if one
# column has no value at all: the ValueError is about a "window shape" of NumPy and names no column.
# A column with one value is accepted, and so is an empty one by RandomForestClassifier.
#
# Seen with NumPy 2.4.6 and Python 3.11:
#   one value in the column: fitted
#   no value in the column: ValueError: window shape cannot be larger than input array shape
#   no value, random forest: fitted
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv venv -q "$folder"
uv pip install -q --python "$folder" scikit-learn==1.9.1 numpy==2.4.6
"$folder/bin/python" - <<'PYTHON'
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

labels = np.arange(60) % 2
empty = np.c_[np.arange(60.0) % 7, np.full(60, np.nan)]
one = empty.copy()
one[3, 1] = 1.0


def fit(model, samples):
    try:
        model.fit(samples, labels)
    except ValueError as error:
        return f"ValueError: {error}"
    return "fitted"


said = {
    "one value in the column": fit(HistGradientBoostingClassifier(), one),
    "no value in the column": fit(HistGradientBoostingClassifier(), empty),
    "no value, random forest": fit(RandomForestClassifier(n_estimators=5), empty),
}
for what, outcome in said.items():
    print(f"{what}: {outcome}")
assert list(said.values()) == [
    "fitted",
    "ValueError: window shape cannot be larger than input array shape",
    "fitted",
]
PYTHON
