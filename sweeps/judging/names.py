"""Names by which other people's files call scores, labels, predictions and confidences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

PROBS = (
    *("probs", "probabilities", "proba", "probas", "p", "prob", "probability"),
    *("y_prob", "y_probs", "y_proba", "y_probability", "pred_probs", "pred_proba", "softmax"),
)
LOGITS = ("logits", "logit", "log_probs", "log_prob", "logprobs", "margin", "margins")
SCORES = (
    *("scores", "score", "y_score", "y_scores", "outputs", "output", "predictions", "prediction"),
    *("preds", "pred", "y_pred"),
)
"""Names of scores that may be probabilities or logits; some are also used for classes."""

TRUE_LABELS = (
    *("y_true", "true_label", "true_labels", "true_class", "label_true", "truth", "ground_truth"),
    *("true", "gold", "gold_label", "gold_index", "gt", "gt_label"),
)
LABELS = ("labels", "label", "y", "target", "targets", "label_ids", "actual", "obs", "class")
"""Names of true labels that some files use for predictions; the names above win."""

PREDICTED = (
    *("y_pred", "pred", "preds", "prediction", "predictions", "predicted", "predict", "response"),
    *("predicted_label", "pred_label", "prediction_label", "predicted_class", "pred_class"),
    *("label_pred", "class_pred", ".pred_class", "predicted_labels", "y_hat", "predicted_answer"),
    *("predicted_id", "predicted_name"),
)
CONFIDENCES = (
    *("confidence", "conf", "confidences", "max_prob", "top_prob", "pred_prob", "pred_conf"),
    *("max_probability", "prediction_score", "predicted_prob", "confidence_score"),
    *("conf_score", "confidence_in_pred", "pred_score", "predicted_score"),
    *("prediction_confidence", "predicted_probability", "pred_probability"),
)
CATEGORIES = (
    *("category", "category_id", "class_id", "class_name", "label_name", "classification"),
    *("species", "scientific_name", "taxon", "majority_voting"),
)
"""Names of predictions, as detectors and classifiers of species and cells write them."""

MARGINS = ("margin", "margins")
ENTROPIES = ("entropy", "predictive_entropy")
ABSTAINED = (
    *("abstain", "abstained", "abstention", "reject", "rejected", "refuse", "refused"),
    *("no_prediction", "unknown", "none", "-1"),
)
"""Predictions that are no class, if no label is called so."""

IDS = (
    *("id", "ids", "uid", "uuid", "guid", "key", "idx", "index", "item", "row_index"),
    *("sample", "image", "img", "image_name", "image_path", "img_path", "video", "case"),
    *("file", "file_name", "filename", "file_path", "filepath", "path", "patient", "subject"),
    *("customer", "SMILES"),
)
"""Names of what identifies samples, or what several samples belong to, beside ``…_id``."""

_NO_SAMPLES = (
    *("model", "run", "seed", "fold", "split", "epoch", "batch", "experiment", "trial", "class"),
    *("label", "target", "pred", "prediction", "gt", "true"),
)

CLASS_NAMES = ("classes", "class_names", "classes_")
MODEL = "model"

RANKS = ("label", "index", "class", "indices", "labels", "category", "name", "pred")
"""With a number, or as lists, they name the classes of the k largest scores of a sample."""

# p(cat), prob_0, probs.3, logit 7, .pred_cat: one column for each class.
PROBS_OR_LOGITS = (*PROBS, *LOGITS, ".pred", "prediction_score")
_KINDS = (*PROBS_OR_LOGITS, *SCORES)
_ONE_CLASS = re.compile(
    r"(?P<kind>"
    + "|".join(re.escape(each).replace("_", "[_.]") for each in sorted(_KINDS, key=len)[::-1])
    + r")(?:\((?P<inside>.+)\)|[ _.:-](?P<after>.+)|(?P<number>\d+))",
    re.IGNORECASE,
)
_MEAN = re.compile(r"(?:mean|avg|average)[_ .-]|[_ .-](?:mean|avg|average)$", re.IGNORECASE)
# cat_prob, class 0 logit
_CLASS_FIRST = re.compile(
    r"(?P<after>.+)[ _.:-](?P<kind>prob|proba|probability|logit|logits)", re.IGNORECASE
)


def has_name(column: str, names: Iterable[str]) -> bool:
    """Whether a column has one of these names; ``PredictedLabel`` is ``predicted_label``."""
    return _plain(column) in map(_plain, names)


@cache
def _plain(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return re.sub(r"[ .-]", "_", words).lower()


def is_id(column: str) -> bool:
    """Whether a column has the name of an id of samples, such as ``image_id``."""
    plain = _plain(column)
    other = plain.removesuffix("_id") in _NO_SAMPLES or has_name(column, CATEGORIES)
    return has_name(column, IDS) or (plain.endswith("_id") and not other)


def has_role(column: str) -> bool:
    """Whether a column has a name that is not that of a class."""
    return has_name(column, (*TRUE_LABELS, *LABELS, *PREDICTED, *CONFIDENCES, *_KINDS))


def is_text(column: str) -> bool:
    """Whether a column of this name holds classes, which a CSV file gives as text."""
    text = has_name(column, (*TRUE_LABELS, *LABELS, *PREDICTED, MODEL))
    return text and not has_name(column, SCORES)


def kind_and_class(name: str) -> tuple[str, str] | None:
    """``prob_cat``, ``cat_prob`` → ``("prob", "cat")``; None if the name contains no class."""
    if has_role(name):
        return None
    of_mean = _MEAN.sub("", name, count=1)  # of the members of an ensemble
    if match := _ONE_CLASS.fullmatch(of_mean):
        kind = re.sub(r"(?<=.)\.", "_", match["kind"].lower())
        of_class = match["inside"] or match["after"] or match["number"]
        return kind, re.sub(r"^X(?=\d+$)", "", of_class)  # as R writes numbers
    if match := _CLASS_FIRST.fullmatch(name):
        return match["kind"].lower(), match["after"]
    return None


def means_logits(name: str) -> bool | None:
    """Whether scores of this name are logits; None if the name does not say."""
    return True if has_name(name, LOGITS) else None if has_name(name, SCORES) else False


def shortened(names: Sequence[str], most: int = 12) -> str:
    """The names in one line; the middle of a long list is left out."""
    shown = [name or '""' for name in names]
    if len(shown) > most:
        shown = [*shown[:3], "…", shown[-1]]
    return ", ".join(shown)
