"""Loads what a sweep learns from, and what its finalists are tried on besides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.sweep_file.schema import SweepFile

if TYPE_CHECKING:
    from trainables.data.base import Dataset, Elsewhere


def load_data(sweep: SweepFile) -> Dataset:
    """The sweep's dataset, split by the sweep's seed, with what finalists are tried on besides.

    Raises:
        UserError: It cannot be loaded.
    """
    from trainables.data import load_dataset
    from trainables.data.elsewhere import load_elsewhere

    try:
        dataset = load_dataset(sweep.dataset.name, seed=sweep.search.seed, **sweep.dataset.options)
    except (ValueError, TypeError, OSError) as error:
        raise UserError(f"dataset: {error}") from None
    elsewhere: list[Elsewhere] = []
    for key, kind, section in sweep.evaluation.sets:
        try:
            elsewhere += load_elsewhere(kind, section.name, dataset, **section.options)
        except (ValueError, TypeError, OSError) as error:
            raise UserError(f"{key}: {error}") from None
    return replace(dataset, elsewhere=tuple(elsewhere))
