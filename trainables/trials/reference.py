"""Simple, well-known scikit-learn models for each kind of data, fitted on the same splits.

A sweep compares losses of one network. These models show whether that network is worth its cost.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from trainables.contract.config import Criterion
from trainables.data.core.base import Dataset, Split
from trainables.data.core.tasks import OneClass
from trainables.data.core.types import Indices, Inputs
from trainables.data.kinds.encode import PADDING
from trainables.data.kinds.samples import Arrays, Images
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import TableRows
from trainables.data.kinds.words import Tokens, WeightedWords
from trainables.metrics import EPOCH_METRICS
from trainables.trials.outcome import Extent, Predictions, summarise

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_MOST_ROWS: Final = 20_000  # random subset of the training split; more would take minutes
_LARGEST_SIDE: Final = 28  # pixels; larger images are averaged down
_MOST_LEVELS: Final = 255  # maximum number of categories in scikit-learn's gradient boosting
_LEAST_PROBABILITY: Final = 1e-9
_AT_A_TIME: Final = 4_096


@dataclass(frozen=True)
class _Model:
    name: str
    features: Callable[[Inputs], Any]
    make: Callable[[], Any]
    most_rows: int = _MOST_ROWS


def reference_models(
    dataset: Dataset,
    seed: int = 0,
    names: Sequence[str] = EPOCH_METRICS,
    criterion: Criterion = "nll",
) -> dict[str, dict[str, float]]:
    """Metrics of the reference models of a dataset, by model; empty if its kind of data has none.

    Texts: logistic regression on TF-IDF. Tables and vectors: histogram gradient boosting, and
    logistic regression. Images and other arrays: logistic regression on pixels or numbers. They are
    fitted, in seconds, on a random subset of at most 20,000 training samples (5,000 images).
    ``seed`` is that of the subset and of gradient boosting.
    """
    if not isinstance(dataset.task, OneClass):
        return {}
    rows = np.random.default_rng(seed).permutation(len(dataset.train))
    found = {}
    for model in _models(dataset, seed, np.sort(rows[:_MOST_ROWS])):
        chosen = np.sort(rows[: model.most_rows])
        train = dataset.train
        classifier = model.make()
        weights = {} if train.weights is None else {"sample_weight": train.weights[chosen]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nearly converged is good enough
            classifier.fit(model.features(train.rows(chosen)), train.labels[chosen], **weights)
        validation, test = (
            _predicted(classifier, model, split, dataset.num_classes)
            for split in (dataset.validation, dataset.test)
        )
        found[model.name] = summarise(
            validation, test, extent=Extent(tuple(names)), criterion=criterion
        )
    return found


def _models(dataset: Dataset, seed: int, fitted: Indices) -> list[_Model]:
    """The models of a kind of data; ``fitted`` are the training rows that fit those of tables."""
    samples = dataset.samples
    if isinstance(samples, WeightedWords):
        return [_Model("TF-IDF + logistic regression", _weights_of_words(samples), _regression)]
    if isinstance(samples, Tokens | Subwords):
        padding = samples.padding if isinstance(samples, Subwords) else PADDING
        features = _tf_idf(dataset.train.inputs, samples.num_tokens, padding)
        return [_Model("TF-IDF + logistic regression", features, _regression)]
    if isinstance(samples, TableRows):
        features = _without_empty(dataset.train.rows(fitted))
        return [
            _Model("gradient boosting", features, partial(_boosting, seed, samples)),
            _Model("logistic regression", _indicators(samples), _regression),
        ]
    if isinstance(samples, Images):
        name = "logistic regression on pixels"
        return [_Model(name, _pixels, _scaled_regression, most_rows=5_000)]
    if isinstance(samples, Arrays):
        linear = _Model("logistic regression", _flat, _scaled_regression)
        if len(samples.shape) > 1:
            return [linear]
        return [_Model("gradient boosting", _flat, partial(_boosting, seed)), linear]
    return []


def _predicted(classifier: Any, model: _Model, split: Split, num_classes: int) -> Predictions:
    """Log-probabilities, (N, K) float32, and labels; a class without training samples is tiny."""
    logits = np.full((len(split), num_classes), math.log(_LEAST_PROBABILITY), np.float32)
    for start in range(0, len(split), _AT_A_TIME):
        numbers = np.arange(start, min(start + _AT_A_TIME, len(split)))
        probs = classifier.predict_proba(model.features(split.rows(numbers)))
        probs = np.maximum(probs, _LEAST_PROBABILITY)
        logits[numbers[:, None], classifier.classes_] = np.log(probs)
    return torch.from_numpy(logits), torch.from_numpy(np.array(split.labels))


def _regression() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(tol=1e-3)


def _scaled_regression() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Strong regularisation, because the pixels of a few thousand images are linearly separable.
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.01, tol=1e-3))


def _boosting(seed: int, samples: TableRows | None = None) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    categories = []
    if samples is not None:
        few = (len(levels) < _MOST_LEVELS for levels in samples.levels)
        categories = [len(samples.numeric) + place for place, is_few in enumerate(few) if is_few]
    return HistGradientBoostingClassifier(categorical_features=categories, random_state=seed)


def _without_empty(fitted: Inputs) -> Callable[[Inputs], Inputs]:
    """Rows with 0 in columns of which no fitted row has a value: scikit-learn 1.9 bins no such."""
    empty = np.isnan(fitted).all(axis=0)
    return lambda rows: np.where(empty, 0, rows)


def _flat(rows: Inputs) -> Inputs:
    return rows.reshape(len(rows), -1)


def _pixels(rows: Inputs) -> Inputs:
    """Pixels (N, C·h·w) of images (N, C, H, W), downsampled to at most 28 x 28 by averaging."""
    if (factor := math.ceil(max(rows.shape[2:]) / _LARGEST_SIDE)) > 1:
        small = torch.nn.functional.avg_pool2d(
            torch.from_numpy(rows).float(), factor, ceil_mode=True
        )
        rows = small.numpy()
    return _flat(rows).astype(np.float32)


def _indicators(samples: TableRows) -> Callable[[Inputs], csr_matrix]:
    """Numbers with missing values set to the mean, and one-hot encoded categories."""
    from scipy.sparse import csr_matrix, hstack

    count = len(samples.numeric)

    def features(rows: Inputs) -> csr_matrix:
        parts = [csr_matrix(np.nan_to_num(rows[:, :count])), csr_matrix(np.isnan(rows[:, :count]))]
        for place, levels in enumerate(samples.levels, start=count):
            entries = (np.ones(len(rows)), (np.arange(len(rows)), rows[:, place].astype(int)))
            parts.append(csr_matrix(entries, shape=(len(rows), len(levels) + 1)))
        return hstack(parts, format="csr")

    return features


def _weights_of_words(samples: WeightedWords) -> Callable[[Inputs], csr_matrix]:
    from scipy.sparse import csr_matrix

    def features(rows: Inputs) -> csr_matrix:
        places, columns = np.nonzero(rows[..., 0] != PADDING)
        words = rows[places, columns]
        entries = (words[:, 1], (places, words[:, 0].astype(int)))
        return csr_matrix(entries, shape=(len(rows), samples.num_tokens))

    return features


def _tf_idf(train: Any, num_tokens: int, padding: int) -> Callable[[Inputs], csr_matrix]:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfTransformer

    def counts(rows: Inputs) -> csr_matrix:
        places, columns = np.nonzero(rows != padding)
        entries = (np.ones(len(places)), (places, rows[places, columns]))
        return csr_matrix(entries, shape=(len(rows), num_tokens))  # sums duplicate entries

    weigh = TfidfTransformer(sublinear_tf=True).fit(counts(train))

    def features(rows: Inputs) -> csr_matrix:
        return weigh.transform(counts(rows))

    return features
