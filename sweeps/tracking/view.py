"""The view of MLflow's UI that shows a sweep as a ranked leaderboard, without a click."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from sweeps.search.plan import Plan
from sweeps.tracking.run import RANK, SWEEP, word_columns
from trainables.contract.metric_names import MetricName

_TAG: Final = "mlflow.sharedViewState."  # of the experiment, with the key of a view
LOCAL: Final = "http://127.0.0.1:5000"  # where `calsweep ui` serves by default
_GET: Final = "/api/2.0/mlflow/experiments/get"
_SECONDS: Final = 1.0
_ID_DIGITS: Final = 8
# MLflow always shows these columns, the second with the icon of the run's status.
_NAME, _CREATED, _DURATION = "attributes.`Run Name`", "runDateAndNestInfo", "duration"
_ICON, _NARROW, _WIDE = 44, 100, 140  # pixels; the widest holds a value with its interval


@dataclass(frozen=True)
class Leaderboard:
    """The leaderboard of one sweep, one of those of its experiment.

    Attributes:
        experiment_id: MLflow's id of the experiment.
        sweep_id: See :meth:`~sweeps.store.sweep_store.SweepStore.sweep_id`.
    """

    experiment_id: str
    sweep: str
    sweep_id: str

    @property
    def _key(self) -> str:
        return f"{self.sweep}-{self.sweep_id[:_ID_DIGITS]}"

    @property
    def tag(self) -> str:
        """The tag of the experiment that stores it."""
        return f"{_TAG}{self._key}"

    def link(self, address: str) -> str:
        """Its link on a server.

        Without ``workflowType``, MLflow shows its pages for language models.
        """
        asked = f"viewStateShareKey={self._key}&workflowType=machine_learning"
        return f"{address}/#/experiments/{self.experiment_id}/runs?{asked}"

    def is_served(self, address: str) -> bool:
        """Whether a server answers at once, and has it."""
        import requests

        asked = {"experiment_id": self.experiment_id}
        try:
            reply = requests.get(address + _GET, params=asked, timeout=_SECONDS)
            return self.tag in reply.text
        except requests.RequestException:
            return False

    def view(self, plan: Plan) -> str:
        """The value of the tag: the runs by rank, what decides first, with room for intervals."""
        words = word_columns(plan.rule.objective)
        shown = [_column(RANK), *(_column(words[name]) for name in sorted(words, key=_place))]
        widths = dict.fromkeys(shown, _WIDE) | {_column(RANK): _NARROW, _CREATED: _ICON}
        own = f"tags.{SWEEP} = '{self.sweep}' and tags.`calsweep.sweep_id` = '{self.sweep_id}'"
        return json.dumps(
            {
                "orderByKey": _column(RANK),
                "orderByAsc": True,
                "selectedColumns": shown,
                "columnOrder": [_NAME, _CREATED, *shown, _DURATION],
                "columnWidths": widths,
                "searchFilter": own,
            }
        )


def _place(metric: str) -> int:
    """On the test split after scaling, then before, then on the validation split."""
    found = MetricName.parse(metric)
    return 2 if found.split == "val" else 1 - (found.split == "test" and found.scaled)


def _column(tag: str) -> str:
    return f"tags.`{tag}`"
