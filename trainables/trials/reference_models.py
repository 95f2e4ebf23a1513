"""Simple, well-known models for each kind of data, fitted on the same splits.

A sweep compares losses of one network. These models show whether that network is worth its cost.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainables.data.core.base import Dataset, Split
from trainables.data.core.tasks import OneClass
from trainables.data.core.types import Indices, Inputs
from trainables.data.kinds.arrays import Arrays, Images
from trainables.data.kinds.encode import PADDING
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import TableRows
from trainables.data.kinds.tokens import Tokens, WeightedWords
from trainables.files.rows import Rows
from trainables.models.simple import (
    Linear,
    Pixels,
    SimpleModel,
    Trees,
    WithLevels,
    WordCounts,
    WordWeights,
    boosted_trees,
    downsampled,
)
from trainables.plugins.arguments import describe_error
from trainables.plugins.components import Catalogue

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CATALOGUE: Final = Catalogue(kind="reference", group="calsweep.references", ours={})
"""Functions of a dataset and the training rows to fit, that return a `SimpleModel` or None."""
_MOST_WORK: Final = 2e9  # samples · numbers · classes: a second per step; more would take minutes
_LEAST_ROWS: Final = 5_000
_MOST_LEVELS: Final = 255  # columns with more levels count as numbers in trees
_AT_A_TIME: Final = 1_024
logger = logging.getLogger("calsweep")

Features = Callable[[Tensor], Any]
"""Features of the library's model from inputs (N, ...) of a network."""


@dataclass(frozen=True)
class Reference:
    """A fitted model, and its predictions on the validation and the test split."""

    name: str
    model: SimpleModel
    validation: Rows
    test: Rows


def reference_models(dataset: Dataset, seed: int = 0) -> Iterator[Reference]:
    """The reference models of a dataset; none if its kind of data has none.

    Texts: logistic regression on TF-IDF. Tables and vectors: gradient boosting, and logistic
    regression. Images and other arrays: logistic regression on pixels or numbers. They are fitted
    on all training samples; if that would take minutes, on a random subset. Installed packages add
    theirs. ``seed`` is that of the subset and of gradient boosting.
    """
    if not isinstance(dataset.task, OneClass):
        return
    fits: dict[str, Callable[[Indices], SimpleModel | None]] = {
        name: partial(_installed, name, dataset) for name in CATALOGUE.names()
    }
    for name, fit in (fits | dict(_models(dataset, seed))).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nearly converged is good enough
            try:
                model = fit(_fitted_rows(dataset, seed))
            except (ImportError, OSError) as error:  # LightGBM needs OpenMP of the system
                logger.warning("there is no %s: %s", name, error)
                continue
        if model is None:
            continue
        of_splits = (_predicted(model, dataset, split) for split in ("validation", "test"))
        yield Reference(name, model, *of_splits)


def _installed(name: str, dataset: Dataset, rows: Indices) -> SimpleModel | None:
    try:
        return CATALOGUE.find(name)(dataset, rows)  # type: ignore[no-any-return]
    except Exception as error:  # another package's code may raise anything
        logger.warning("there is no %s: %s", name, describe_error(error))
        return None


def _models(dataset: Dataset, seed: int) -> Mapping[str, Callable[[Indices], SimpleModel]]:
    samples = dataset.samples
    linear = partial(_regression, dataset)
    boosting = partial(_boosting, dataset, seed)
    match samples:
        case WeightedWords():
            fit = partial(linear, WordWeights, _weights_of_words(samples))
            return {"TF-IDF + logistic regression": fit}
        case Tokens() | Subwords():
            return {"TF-IDF + logistic regression": partial(_tf_idf, dataset)}
        case TableRows():
            fit = partial(linear, Linear, _indicators(samples))
            return {"gradient boosting": boosting, "logistic regression": fit}
        case Images():
            fit = partial(linear, Pixels, lambda images: _flat(downsampled(images)))
            return {"logistic regression on pixels": fit}
        case Arrays():
            found = {"logistic regression": partial(linear, Linear, _flat)}
            return found if len(samples.shape) > 1 else {"gradient boosting": boosting, **found}
        case _:
            return {}


def _fitted_rows(dataset: Dataset, seed: int) -> Indices:
    first = _inputs(dataset, dataset.train, np.arange(1))
    if isinstance(dataset.samples, Images):
        first = downsampled(first)
    work = first.numel() * dataset.num_classes
    count = max(_LEAST_ROWS, int(_MOST_WORK / work))
    return np.sort(np.random.default_rng(seed).permutation(len(dataset.train))[:count])


def _inputs(dataset: Dataset, split: Split, rows: Indices) -> Tensor:
    """The inputs of a network (n, ...) for some of the samples."""
    return dataset.samples.prepare(torch.from_numpy(np.ascontiguousarray(split.rows(rows))))


def _features(dataset: Dataset, rows: Indices, features: Features) -> Any:
    from scipy.sparse import issparse, vstack

    parts = [
        features(_inputs(dataset, dataset.train, rows[start : start + _AT_A_TIME]))
        for start in range(0, len(rows), _AT_A_TIME)
    ]
    return vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts)


@torch.no_grad()
def _predicted(model: SimpleModel, dataset: Dataset, name: str) -> Rows:
    split: Split = getattr(dataset, name)
    model.eval()
    logits = [
        model(_inputs(dataset, split, np.arange(start, min(start + _AT_A_TIME, len(split)))))
        for start in range(0, len(split), _AT_A_TIME)
    ]
    return Rows(torch.cat(logits).numpy(), np.array(split.labels), groups=split.groups)


def _weights(dataset: Dataset, rows: Indices) -> npt.NDArray[np.float32] | None:
    weights = dataset.train.weights
    return None if weights is None else weights[rows]


def _places(dataset: Dataset, known: npt.NDArray[np.int64]) -> Tensor:
    """Where each class is among those with training samples; behind them if it has none."""
    places = torch.full((dataset.num_classes,), len(known))
    places[torch.from_numpy(known)] = torch.arange(len(known))
    return places


def _regression(
    dataset: Dataset, kind: type[SimpleModel], features: Features, rows: Indices
) -> SimpleModel:
    from sklearn.linear_model import LogisticRegression

    found = _features(dataset, rows, features)
    mean, scale, strength = np.zeros(1), np.ones(1), 1.0
    if isinstance(found, np.ndarray):
        # Strong regularisation, because the pixels of a few thousand images are linearly separable.
        strength = 0.01
        mean, scale = found.mean(0, dtype=np.float64), found.std(0, dtype=np.float64)
        scale[scale == 0] = 1
        found = ((found - mean) / scale).astype(np.float32)
    regression = LogisticRegression(C=strength, tol=1e-3)
    regression.fit(found, dataset.train.labels[rows], sample_weight=_weights(dataset, rows))
    weights = regression.coef_.astype(np.float64) / scale
    offsets = regression.intercept_ - (weights * mean).sum(1)
    if len(weights) == 1:  # two classes
        weights, offsets = np.stack([-weights[0], weights[0]]) / 2, np.append(-offsets, offsets) / 2
    tensors = {"places": _places(dataset, regression.classes_), "offsets": _single(offsets)}
    if not issubclass(kind, Linear):
        return kind(tensors | {"weights": _single(weights.T)})
    if not (counts := _levels(dataset)):
        return kind(tensors | {"weights": _single(weights)})
    of_levels = weights[:, -sum(counts) :]
    starts = torch.tensor(np.cumsum([0, *counts])[:-1].astype(np.int64))
    tensors |= {"weights": _single(weights[:, : -sum(counts)])}
    return WithLevels(tensors | {"of_levels": _single(of_levels.T), "starts": starts})


def _levels(dataset: Dataset) -> list[int]:
    """The number of codes of each category."""
    levels = dataset.samples.levels if isinstance(dataset.samples, TableRows) else ()
    return [len(each) + 1 for each in levels]


def _single(values: npt.NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def _boosting(dataset: Dataset, seed: int, rows: Indices) -> SimpleModel:
    from lightgbm import LGBMClassifier

    samples, first, many = dataset.samples, 0, []
    if isinstance(samples, TableRows):
        first = samples.shape[0] - len(samples.categorical)
        many = [len(levels) < _MOST_LEVELS for levels in samples.levels]
    model = LGBMClassifier(random_state=seed, verbose=-1, deterministic=True, force_row_wise=True)
    model.fit(
        _features(dataset, rows, lambda inputs: inputs.numpy()),
        dataset.train.labels[rows],
        categorical_feature=[first + place for place, is_few in enumerate(many) if is_few],
        sample_weight=_weights(dataset, rows),
    )
    known = model.classes_
    dumped = model.booster_.dump_model()["tree_info"]
    trees = boosted_trees(dumped, 1 if len(known) == 2 else len(known))
    return Trees(trees | {"places": _places(dataset, known)})


def _flat(inputs: Tensor) -> Inputs:
    return inputs.flatten(1).float().numpy()


def _indicators(samples: TableRows) -> Callable[[Tensor], csr_matrix]:
    """Numbers, flags of missing ones, and one-hot encoded categories."""
    from scipy.sparse import csr_matrix, hstack

    def features(inputs: Tensor) -> csr_matrix:
        rows = inputs.numpy()
        count = rows.shape[1] - len(samples.levels)
        parts = [csr_matrix(rows[:, :count])]
        for place, levels in enumerate(samples.levels, start=count):
            entries = (np.ones(len(rows)), (np.arange(len(rows)), rows[:, place].astype(int)))
            parts.append(csr_matrix(entries, shape=(len(rows), len(levels) + 1)))
        return hstack(parts, format="csr")

    return features


def _weights_of_words(samples: WeightedWords) -> Callable[[Tensor], csr_matrix]:
    from scipy.sparse import csr_matrix

    def features(inputs: Tensor) -> csr_matrix:
        rows = inputs.numpy()
        places, columns = np.nonzero(rows[..., 0] != PADDING)
        words = rows[places, columns]
        entries = (words[:, 1], (places, words[:, 0].astype(int)))
        return csr_matrix(entries, shape=(len(rows), samples.num_tokens))

    return features


def _tf_idf(dataset: Dataset, rows: Indices) -> SimpleModel:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfTransformer

    samples = dataset.samples
    assert isinstance(samples, Tokens | Subwords)
    padding = samples.padding if isinstance(samples, Subwords) else PADDING

    def counts(inputs: Tensor) -> csr_matrix:
        words = inputs.numpy()
        places, columns = np.nonzero(words != padding)
        entries = (np.ones(len(places)), (places, words[places, columns]))
        return csr_matrix(entries, shape=(len(words), samples.num_tokens))  # sums duplicate entries

    weigh = TfidfTransformer(sublinear_tf=True).fit(_features(dataset, rows, counts))
    model = _regression(dataset, WordCounts, lambda inputs: weigh.transform(counts(inputs)), rows)
    idf = weigh.idf_.copy()
    idf[padding] = 0
    return WordCounts({**dict(model.named_buffers()), "idf": _single(idf)})
