"""Loads the dataset and the evaluation sets of a sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.data import OWN_DATA
from sweeps.sweep_file.sections.training import DEFAULT_MODEL

if TYPE_CHECKING:
    from trainables.data.core.base import Data, Dataset, EvaluationSet


def data_of(sweep: SweepFile) -> Data:
    """The sweep's data, which a custom loop may read itself; errors are those of `load_data`."""
    if sweep.dataset.name != OWN_DATA:
        return load_data(sweep)
    from trainables.data.core.base import OwnData

    return OwnData(sweep.dataset.label, **sweep.dataset.options)


def load_data(sweep: SweepFile) -> Dataset:
    """The sweep's dataset, split by its seed, with evaluation sets; UserError on failure."""
    from trainables.data import load_dataset
    from trainables.data.evaluation_sets import load_evaluation_sets

    try:
        options = {**_text_form(sweep), **sweep.dataset.options}
        dataset = load_dataset(sweep.dataset.name, seed=sweep.search.seed, **options)
    except (ValueError, TypeError, OSError) as error:
        raise UserError(f"dataset: {error}") from None
    found: list[EvaluationSet] = []
    for key, kind, section in sweep.evaluation.sets:
        try:
            found += load_evaluation_sets(kind, section.name, dataset, **section.options)
        except (ValueError, TypeError, OSError) as error:
            raise UserError(f"{key}: {error}") from None
    return replace(dataset, evaluation_sets=tuple(found))


def _text_form(sweep: SweepFile) -> dict[str, str]:
    """The option ``text_form`` for texts: weighted words, unless the model needs word order."""
    from trainables.data.kinds.tokens import WeightedWords
    from trainables.data.readers.files import TABLES
    from trainables.models import takes_kind

    options = sweep.dataset.options
    if sweep.dataset.name not in TABLES or not options.get("text"):
        return {}
    if options.get("tokenizer") is not None or options.get("text_form") is not None:
        return {}
    default = sweep.trainable is None and sweep.model.name == DEFAULT_MODEL
    if default or (sweep.trainable is None and takes_kind(sweep.model.name, WeightedWords)):
        return {"text_form": "weighted_words"}
    return {"text_form": "sequence"}
