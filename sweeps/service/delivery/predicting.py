"""Predicts new samples with an exported classifier."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sweeps.errors import UserError
from sweeps.messages.redaction import redact
from sweeps.service.delivery.exporting import PROGRAM
from trainables.export.description import FILE, Exported

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor

    from sweeps.judging.facts import SetsKind
    from trainables.data.core.bad_samples import OnBadSample
    from trainables.posthoc.conformal import SetMethod


@dataclass(frozen=True)
class Asked:
    """The options of ``calsweep predict``.

    Attributes:
        on_bad_sample: Whether samples that cannot be read end it, or are left out.
        id_column: The column of the data that names each line.
        coverage: How often prediction sets contain the true class; None for no sets.
        method: Their method.
        sets: Whether they cover so on average, or for each class.
        scaling: A file of ``calsweep judge --save-scaling``, which is applied to the probabilities;
            it may also say what to decide.
        prior: Other frequencies of the classes, see :func:`~sweeps.judging.priors.after_prior`.
    """

    on_bad_sample: OnBadSample = "error"
    id_column: str | None = None
    coverage: float | None = None
    method: SetMethod = "lac"
    sets: SetsKind = "all"
    scaling: str | None = None
    prior: str | None = None

    def __post_init__(self) -> None:
        if self.coverage is not None and (self.scaling or self.prior):
            raise UserError(
                "with scaling or prior it is not allowed: prediction sets are those of the "
                "classifier's own probabilities",
                "coverage",
            )


USUAL = Asked()


def predict(
    folder: str, data: str, output: TextIO, asked: Asked = USUAL, batch_size: int = 256
) -> tuple[int, tuple[str, ...]]:
    """Write the predictions of an exported classifier for new samples, as CSV.

    A line has the sample's name, the predicted class, its probability, and the probabilities of all
    classes. With several labels per sample: the labels with a probability above one half, the
    lowest probability of these decisions, and the probability of each label. If asked for, a column
    ``set`` contains classes, and a column ``decision`` the class that the thresholds decide for, or
    ``abstain``.

    `folder` is of :func:`~sweeps.service.delivery.exporting.export_model`; `data` are read by
    :func:`~trainables.export.raw_samples.read_raw`. Returns the number of classified samples, and
    notes about skipped samples, unknown categories and the prior.

    Raises:
        UserError: There is no exported classifier, the samples do not fit it, it classifies pixels,
            or it has not what is asked for.
    """
    import torch

    from trainables.export.exported import load_program
    from trainables.export.raw_samples import read_raw, samples_of

    try:
        about = Exported.read((Path(folder) / FILE).read_bytes())
        classify = load_program((Path(folder) / PROGRAM).read_bytes()).module()
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise UserError(
            f"{folder}: not a folder that `calsweep export` has written ({error})"
        ) from None
    try:
        samples = samples_of(about.samples)
    except ValueError as error:
        raise UserError(
            f"{folder}: {error}; load {PROGRAM} in Python, as its README.md shows"
        ) from None
    if samples.each_pixel:
        raise UserError(
            f"{folder}: gives probabilities of each pixel, (N, {len(about.classes)}, height, "
            f"width), which make no lines of CSV; load {PROGRAM} in Python, as its README.md shows"
        )
    threshold = None if asked.coverage is None else _threshold(about, asked.coverage, asked)
    try:
        rows, names, notes = read_raw(
            samples, Path(data), about.text_column, asked.on_bad_sample, asked.id_column
        )
    except (OSError, ValueError, TypeError) as error:
        raise UserError(redact(str(error))) from None
    parts = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    with torch.no_grad():
        probs = torch.cat([classify(torch.from_numpy(each)) for each in parts])
    probs, decisions, more = _adjusted(probs, about, asked)
    columns = {} if decisions is None else {"decision": decisions}
    if threshold is not None:
        columns["set"] = _sets(probs, about.classes, threshold, asked)
    _write(output, (asked.id_column or "sample", names), probs, columns, about)
    return len(rows), (*notes, *more)


def _adjusted(
    probs: Tensor, about: Exported, asked: Asked
) -> tuple[Tensor, list[str] | None, list[str]]:
    """Probabilities (N, K) after a scaling and a prior; decisions if any; notes."""
    if asked.scaling is None and asked.prior is None:
        return probs, None, []
    from sweeps.judging.applied import NamedScaling, class_order
    from sweeps.judging.priors import after_prior

    classes, frequencies, decision = about.classes, about.frequencies, None
    if about.several:
        raise UserError("scaling and prior need one class for each sample")
    notes = []
    if asked.scaling is not None:
        named = NamedScaling.read(Path(asked.scaling))
        logits = probs.double().clamp(min=1e-300).log()
        probs = named.of_logits(logits, classes, asked.scaling)
        decision = named.decision
        order = class_order(classes, named.classes, asked.scaling)
        frequencies = tuple(named.frequencies[place] for place in order if named.frequencies)
    if asked.prior is not None:
        probs, note = after_prior(probs, classes, frequencies, asked.prior)
        notes.append(note)
    return probs, None if decision is None else decision.classes(probs, classes), notes


def _sets(
    probs: Tensor, classes: Sequence[str], threshold: float | list[float], asked: Asked
) -> list[str]:
    from trainables.posthoc.conformal import ClassSets, PredictionSets

    kind = PredictionSets if asked.sets == "all" else ClassSets
    inside = kind(asked.method, asked.coverage or 0.9, 0, threshold)(probs).tolist()
    return ["|".join(c for c, yes in zip(classes, row, strict=True) if yes) for row in inside]


def _write(
    output: TextIO,
    lines: tuple[str, list[str] | npt.NDArray[np.str_]],
    probs: Tensor,
    columns: dict[str, list[str]],
    about: Exported,
) -> None:
    """The table; `lines` are the heading and names of its rows."""
    (heading, names), classes = lines, about.classes
    writer = csv.writer(output)
    writer.writerow([heading, "class", "confidence", *columns, *(f"p({name})" for name in classes)])
    for row, (name, each) in enumerate(zip(names, probs.tolist(), strict=True)):
        found, confidence = _decided(classes, each, several=about.several)
        cells = [name, found, f"{confidence:.9g}", *(column[row] for column in columns.values())]
        writer.writerow([*cells, *(f"{p:.9g}" for p in each)])


def _decided(classes: Sequence[str], probs: list[float], *, several: bool) -> tuple[str, float]:
    """The class of a sample and its probability; for several labels as in :func:`predict`."""
    if several:
        found = "|".join(c for c, p in zip(classes, probs, strict=True) if p > 0.5)
        return found, min(max(p, 1 - p) for p in probs)
    confidence = max(probs)
    return classes[probs.index(confidence)], confidence


def _threshold(about: Exported, coverage: float, asked: Asked) -> float | list[float]:
    """The threshold of the prediction sets; UserError if there are none of this coverage."""
    if not (sets := about.prediction_sets.get(asked.method)):
        raise UserError(
            "this classifier has no prediction sets; they need one class per sample, enough "
            "validation samples, and an export by this version of calsweep",
            "coverage",
            coverage,
        )
    if f"{coverage:g}" not in sets:
        raise UserError(f"allowed: {', '.join(sets)}", "coverage", coverage)
    found = sets[f"{coverage:g}"]
    if asked.sets == "all":
        return float(found["threshold"])
    if "class_thresholds" not in found:
        raise UserError("this classifier has none; export it again", "sets", asked.sets)
    return [float("inf") if each is None else each for each in found["class_thresholds"]]
