#!/usr/bin/env bash
# torch 2.15.0 with onnxscript 0.7.2: torch.onnx.export turns nn.EmbeddingBag on a batch (N, L) into
# a Loop over its N rows, which concatenates a sequence. The same sum, written as a gather and a sum
# over the second axis, has no loop.
#
# Seen: EmbeddingBag: 1 Loop, 20 nodes; gather and sum: 0 Loop, 5 nodes
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv venv -q "$folder"
uv pip install -q --python "$folder" torch==2.15.0 onnxscript==0.7.2 onnx==1.23.2
"$folder/bin/python" -W ignore - 2>/dev/null <<'PYTHON'
import torch
from torch import nn


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(100, 8, mode="sum")

    def forward(self, words, weights):
        return self.bag(words, per_sample_weights=weights)


class Sum(Bag):
    def forward(self, words, weights):
        return (self.bag.weight[words] * weights.unsqueeze(-1)).sum(1)


words, weights = torch.randint(100, (5, 7)), torch.rand(5, 7)
found = []
for kind in (Bag, Sum):
    program = torch.onnx.export(
        kind().eval(), (words, weights), dynamic_shapes=({0: "n"}, {0: "n"}), verbose=False
    )
    nodes = [node.op_type for node in program.model.graph]
    found.append((nodes.count("Loop"), len(nodes)))
print("EmbeddingBag: {} Loop, {} nodes; ".format(*found[0]), end="")
print("gather and sum: {} Loop, {} nodes".format(*found[1]))
assert found[0][0] == 1 and found[1][0] == 0
PYTHON
