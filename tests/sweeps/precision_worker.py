"""Asks the nodes of a cluster for their precision: ``python precision_worker.py RANK FOLDER``.

The folder has the address of the cluster.
"""

import os
import sys
from pathlib import Path

import torch

os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}

import trainables.engine.precision
from sweeps.cluster.connection import connected
from sweeps.cluster.ray_tune import RayTune
from sweeps.planning.data import load_data
from sweeps.planning.gpu_share import settle_devices
from tests.builders import make_sweep

folder = Path(sys.argv[2])
# Shipped by value, so that each node answers for itself.
trainables.engine.precision.cpu_has_bfloat16 = lambda: os.environ["HAS_BFLOAT16"] == "yes"
sweep = make_sweep(model={"name": "small_cnn", "width": 64})
with connected((folder / "address").read_text()):
    settled, _ = settle_devices(sweep, load_data(sweep), RayTune())
torch.save(settled.training.precision, folder / "precision.pt")
