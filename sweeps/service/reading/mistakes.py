"""The most confident errors of the network that the report shows, stored for the report.

The data may be unavailable where the report is written.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from sweeps.messages.reporter import logger
from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore

if TYPE_CHECKING:
    from trainables.contract.config import ScalingWay
    from trainables.data.core.base import Data


_FILE = "mistakes.json"


def keep_mistakes(
    store: SweepStore, shown: TrialRecord | None, dataset: Data, way: ScalingWay
) -> None:
    """Store the most confident errors of the network that the report shows on the test split.

    Nothing is stored for data that people cannot recognise, or if storing fails.
    """
    import numpy as np

    from sweeps.evidence.scaling import scaled_rows  # slow imports, for reports only
    from sweeps.pages.held_out import mistakes
    from trainables.data.core.base import OwnData

    if shown is None or isinstance(dataset, OwnData):
        return
    try:
        found = mistakes(scaled_rows(store.rows, shown, way), dataset.classes, dataset.task.names)
        numbers = np.array([mistake.row for mistake in found], np.int64)
        known = zip(numbers, map(dataset.samples.shown, dataset.test.rows(numbers)), strict=True)
        kept = {str(number): text for number, text in known if text is not None}
        store.folder.write(_FILE, json.dumps(kept).encode())
    except (OSError, ValueError) as error:
        logger.warning("the worst mistakes are not kept for the report: %s", error)


def load_mistakes(store: SweepStore) -> dict[int, str]:
    """Row of the test split → its sample: text, or an image as ``data:`` URI."""
    with suppress(OSError, ValueError, AttributeError):  # the report then shows no samples
        return {int(row): str(text) for row, text in json.loads(store.folder.read(_FILE)).items()}
    return {}
