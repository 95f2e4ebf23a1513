"""A sweep as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from calsweep.running import run
from sweeps.errors import SweepInterruptedError, UserError
from trainables.data.core.types import without_mask


@dataclass(eq=False, repr=False)
class CalibratedClassifierSweep(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier that searches for the best-calibrated loss and hyperparameters.

    ``fit`` runs a sweep (:func:`calsweep.run`). It holds out validation samples for selection, and
    test samples that are never used for selection. ``predict_proba`` uses the selected network
    after temperature scaling.

    Args:
        losses: See :func:`calsweep.run`.
        model: See :func:`calsweep.run`. None is ``mlp`` for numbers, also in a data frame;
            ``table_mlp`` for a data frame with words or missing values.
        epochs: Number of epochs per trial.
        trials: Number of trials of the search.
        validation: Fraction or number of validation samples; a fraction gives at least one per
            class.
        test_size: Fraction or number of test samples, on which ``best_.test`` is computed.
        set: Other values of the sweep file, such as ``{"training.lr": 0.05}``.
        storage: Path or URI of a sweep store that keeps the sweep of each fit. With None, only this
            object keeps the result.
        address: Address of a Ray cluster; None runs on this machine.
        random_state: Seed of the sweep.
        progress: Whether to print progress.

    Attributes:
        classes_: The labels, sorted.
        model_: The network with preprocessing and temperature, a torch module.
        recommended_: What ``model_`` is, and why, :class:`calsweep.Recommendation`.
        best_: The selected setting, :class:`calsweep.Best`.
        result_: The sweep's :class:`calsweep.Result`; only with ``storage``.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, if ``X`` has names.
    """

    losses: Any = ("focal", "dual_focal", "label_smoothing")
    model: Any = None
    _: KW_ONLY
    epochs: int = 20
    trials: int = 20
    validation: float | int = 0.2
    test_size: float | int = 0.1
    set: Mapping[str, Any] | None = None
    storage: str | None = None
    address: str | None = None
    random_state: Any = 0
    progress: bool = False

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Runs the sweep.

        Args:
            X: Samples: an array (N, ...) of finite numbers, uint8 (N, H, W) and so on for images;
                or a data frame, which may have columns of words and missing values.
            y: Class labels (N,), of any type that scikit-learn accepts.
            sample_weight: Weights in the loss, (N,), at least 0.
            groups: The customer, patient ... of each sample, (N,), if several samples are of one.
                No group is then in two splits, and intervals and verdicts take groups as the unit.
                ``"equal_rows"`` keeps equal samples in one split.

        With scikit-learn's metadata routing, ``set_fit_request(sample_weight=True, groups=True)``
        requests these.

        Raises:
            ValueError: The data or an argument of this object cannot be used.
            SweepInterruptedError: Ctrl-C or the notebook's stop button.
        """
        # A frame is not converted to an array.
        self._is_table = hasattr(X, "columns") and hasattr(X, "dtypes")
        given = [
            without_mask(each, what) if np.ma.is_masked(each) else each
            for what, each in (("X", X), ("y", y))
        ]
        samples, labels = validate_data(self, *given, **_kind(is_table=self._is_table))
        labels = column_or_1d(labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("there is one class; at least 2 classes are needed")
        if sample_weight is not None and _num_weighted(codes, np.asarray(sample_weight)) == 1:
            raise ValueError("one class has weights above 0; at least 2 classes are needed")
        # A frame of numbers gives the same answer as an array of them.
        like_array = self.model is None and self._is_table and _are_numbers(np.asarray(samples))
        values = {
            **({"model.name": "mlp"} if like_array else {}),
            "search.seed": int(check_random_state(self.random_state).randint(2**31 - 100)),
            "dataset.validation": self._held_out(self.validation, len(codes)),
            "dataset.test_size": self._held_out(self.test_size, len(codes)),
            **(self.set or {}),
        }
        known = labels if _are_counts(labels) else np.array(_names(self.classes_))[codes]
        weights = () if sample_weight is None else (sample_weight,)
        with ExitStack() as until_done:
            storage = self.storage
            if storage is None:
                storage = until_done.enter_context(TemporaryDirectory(prefix="calsweep-"))
            try:
                result = run(
                    dataset=(samples, known, *weights),
                    groups=groups,
                    model=self.model,
                    losses=list(self.losses) if isinstance(self.losses, tuple) else self.losses,
                    epochs=self.epochs,
                    trials=self.trials,
                    storage=storage,
                    address=self.address,
                    set=values,
                    progress=self.progress,
                )
                self.model_, self.best_ = result.model(), result.best
                self.recommended_ = result.recommended
            except UserError as error:
                raise ValueError(str(error)) from error
            except SweepInterruptedError:
                if self.storage is not None:
                    raise
                raise SweepInterruptedError(
                    "interrupted; this fit is lost, as its sweep is in a temporary folder; with "
                    "storage=FOLDER, calsweep.resume could continue it"
                ) from None
        if self.storage is not None:
            self.result_ = result
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "result_" and hasattr(self, "model_"):
                raise AttributeError(
                    "result_: the sweep was not kept; give storage=FOLDER, or use best_ and model_"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Calibrated probabilities (N, K), in the order of ``classes_``."""
        check_is_fitted(self)
        samples = validate_data(self, X, reset=False, **_kind(is_table=self._is_table))
        order = [self.model_.classes.index(name) for name in _names(self.classes_)]
        probs = self.model_.predict_proba(samples).astype(float)[:, order]
        scaled: npt.NDArray[np.float64] = probs / probs.sum(axis=1, keepdims=True)
        return scaled

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The most probable labels (N,)."""
        probs = self.predict_proba(X)  # checks first that there are classes
        labels: npt.NDArray[Any] = self.classes_[probs.argmax(axis=1)]
        return labels

    def _held_out(self, part: float | int, count: int) -> int:
        """Converts a fraction to a number of samples, at least one per class."""
        return part if isinstance(part, int) else max(round(part * count), len(self.classes_))


def _kind(*, is_table: bool) -> dict[str, bool]:
    return {"skip_check_array": True} if is_table else {"allow_nd": True}


def _are_numbers(values: npt.NDArray[Any]) -> bool:
    return values.dtype.kind in "iuf" and bool(np.isfinite(values).all())


def _are_counts(labels: npt.NDArray[Any]) -> bool:
    return labels.dtype.kind in "iu" and int(labels.min()) >= 0


def _names(classes: npt.NDArray[Any]) -> list[str]:
    """The names under which the sweep knows the classes, so that messages have the user's."""
    return [str(label) for label in classes]


def _num_weighted(codes: npt.NDArray[np.intp], weights: npt.NDArray[Any]) -> int:
    """Number of classes that have a weight other than 0; weights are checked later."""
    return len(np.unique(codes[weights != 0] if weights.shape == codes.shape else codes))
