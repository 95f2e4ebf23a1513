"""Models of other libraries as networks: softmax regression and boosted trees.

They consist of tensors alone, so that they are stored, exported and served like trained networks.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_LEAST: Final = math.log(1e-9)
_LARGEST_SIDE: Final = 28  # pixels; larger images are averaged down
_NUMERIC: Final = 0  # the group of nodes that compare numbers


class SimpleModel(nn.Module):
    """Log-probabilities (N, K) of a batch (N, ...) as the kind of sample normalises it.

    Probabilities are at least 1e-9; those of classes without training samples are 1e-9.

    Args:
        tensors: The buffers of the model by name. ``places`` (K,) says where each class is in
            `scores`; a class without training samples is behind the last.
    """

    places: Tensor
    weights: Tensor
    offsets: Tensor

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, inputs: Tensor) -> Tensor:
        """Log-probabilities (N, K)."""
        found = self.scores(inputs).log_softmax(dim=1)
        with_absent = F.pad(found, (0, 1), value=_LEAST)
        return with_absent.index_select(1, self.places).clamp(min=_LEAST)

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores (N, P) of the P classes with training samples, up to a constant per sample."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """A file that `simple_model` reads."""
        buffer = io.BytesIO()
        torch.save({"kind": type(self).__name__, "tensors": self.state_dict()}, buffer)
        return buffer.getvalue()


class Linear(SimpleModel):
    """Softmax regression on numbers.

    Args:
        tensors: ``weights`` (P, D) and ``offsets`` (P,).
    """

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores of the classes, see the base class."""
        return F.linear(inputs.flatten(1), self.weights, self.offsets)


class WithLevels(Linear):
    """Softmax regression on numbers and, after them, codes of one-hot encoded categories.

    Args:
        tensors: Those of `Linear`; ``of_levels`` (levels, P), where ``starts`` (C,) has the first
            of each category.
    """

    of_levels: Tensor
    starts: Tensor

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores of the classes, see the base class."""
        numbers, codes = inputs[:, : -len(self.starts)], inputs[:, -len(self.starts) :]
        return super().scores(numbers) + self.of_levels[codes.long() + self.starts].sum(dim=1)


class Pixels(Linear):
    """Softmax regression on downsampled images (N, C, H, W)."""

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores of the classes, see the base class."""
        return super().scores(downsampled(inputs))


def downsampled(images: Tensor) -> Tensor:
    """Images (N, C, h, w) of at most 28 x 28 pixels, by averaging."""
    factor = math.ceil(max(images.shape[2:]) / _LARGEST_SIDE)
    return images if factor == 1 else F.avg_pool2d(images, factor, ceil_mode=True)


class WordWeights(SimpleModel):
    """Softmax regression on rows of words and their weights (N, L, 2).

    Args:
        tensors: ``weights`` (words, P) and ``offsets`` (P,).
    """

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores of the classes, see the base class."""
        words, weights = inputs.unbind(dim=2)
        of_words = self.weights[words.long()]
        return torch.bmm(weights.unsqueeze(1), of_words).squeeze(1) + self.offsets


class WordCounts(SimpleModel):
    """Softmax regression on TF-IDF of rows of words (N, L), as in scikit-learn's transformer.

    Args:
        tensors: ``weights`` (words, P) and ``offsets`` (P,); ``idf`` (words,), 0 for padding.
    """

    idf: Tensor

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores of the classes, see the base class."""
        ones = torch.ones(inputs.shape, device=inputs.device)
        counts = torch.zeros((inputs.shape[0], len(self.idf)), device=inputs.device)
        counts = counts.scatter_add(1, inputs.long(), ones)
        weighted = torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0) * self.idf
        return F.linear(F.normalize(weighted, dim=1), self.weights.T, self.offsets)


class Trees(SimpleModel):
    """Gradient-boosted trees on numbers and codes of categories (N, D).

    Args:
        tensors: See `boosted_trees`.
    """

    roots: Tensor
    features: Tensor
    thresholds: Tensor
    groups: Tensor
    members: Tensor
    followers: Tensor
    values: Tensor

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(tensors)
        self._depth = int(tensors["depth"])
        self._num_scores = int(tensors["num_scores"])

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores of the classes, see the base class."""
        nodes = self.roots.expand(inputs.shape[0], -1)
        for _ in range(self._depth):
            found = inputs.gather(1, self.features[nodes])
            goes_right = found > self.thresholds[nodes]
            if len(self.members) > 1:
                codes = found.clamp(0, self.members.shape[1] - 1).long()
                goes_right |= ~self.members[self.groups[nodes], codes]
            nodes = self.followers[nodes, goes_right.long()]
        found = self.values[nodes].reshape(inputs.shape[0], -1, self._num_scores).sum(dim=1)
        return F.pad(found, (1, 0)) if self._num_scores == 1 else found


def boosted_trees(trees: Sequence[Mapping[str, Any]], num_scores: int) -> dict[str, Tensor]:
    """The buffers of `Trees` from ``Booster.dump_model()["tree_info"]`` of LightGBM.

    All T trees are in one list of M nodes: ``roots`` (T,); ``features`` and ``thresholds`` (M,),
    where larger numbers go right; ``groups`` (M,) of categories, rows of ``members``, which alone
    go left; ``followers`` (M, 2), of a leaf itself; ``values`` (M,). ``num_scores`` is the number
    of trees per round.
    """
    nodes: list[tuple[int, float, int, tuple[int, int], float]] = []
    groups: list[list[int]] = [[]]
    deepest = 0

    def add(node: Mapping[str, Any], depth: int) -> int:
        nonlocal deepest
        deepest = max(deepest, depth)
        place = len(nodes)
        nodes.append((0, math.inf, _NUMERIC, (place, place), float(node.get("leaf_value", 0))))
        if "split_feature" not in node:
            return place
        group, threshold = _NUMERIC, node["threshold"]
        if node["decision_type"] == "==":
            group = len(groups)
            groups.append([int(code) for code in threshold.split("||")])
            threshold = math.inf
        children = add(node["left_child"], depth + 1), add(node["right_child"], depth + 1)
        nodes[place] = (node["split_feature"], threshold, group, children, 0.0)
        return place

    roots = [add(tree["tree_structure"], 0) for tree in trees]
    features, thresholds, of_nodes, children, values = zip(*nodes, strict=True)
    members = np.zeros((len(groups), 1 + max((max(g, default=0) for g in groups), default=0) + 1))
    for row, codes in enumerate(groups):
        members[row, codes] = 1
    members[_NUMERIC] = 1  # all go left, unless they are above the threshold
    return {
        "roots": torch.tensor(roots),
        "features": torch.tensor(features),
        "thresholds": torch.from_numpy(_rounded_down(np.array(thresholds))),
        "groups": torch.tensor(of_nodes),
        "members": torch.from_numpy(members > 0),
        "followers": torch.tensor(children),
        "values": torch.tensor(values),
        "depth": torch.tensor(deepest),
        "num_scores": torch.tensor(num_scores),
    }


def _rounded_down(values: np.ndarray) -> np.ndarray:
    """The largest float32 up to each number: a float32 is above both or above none."""
    found = values.astype(np.float32)
    return np.where(found > values, np.nextafter(found, np.float32(-np.inf)), found)


def simple_model(data: bytes) -> SimpleModel:
    """The model of a file of `SimpleModel.to_bytes`; ValueError if it is damaged."""
    kinds = {
        kind.__name__: kind for kind in (Linear, WithLevels, Pixels, WordWeights, WordCounts, Trees)
    }
    try:
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        return kinds[state["kind"]](state["tensors"])
    except Exception as error:  # torch raises many types
        raise ValueError(f"this is no model that calsweep wrote: {error}") from error
