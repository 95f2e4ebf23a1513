"""The columns of MLflow's table of runs."""

import json

from sweeps.tracking.views import VIEW_TAG, shared_view
from tests.builders import make_sweep


def test_a_column_is_as_wide_as_what_stands_in_it() -> None:
    first = shared_view(make_sweep(losses=["r_aurc"]), {})
    later = shared_view(make_sweep(losses=["focal"]), {VIEW_TAG: first})
    widths = json.loads(later)["columnWidths"]
    assert widths["params.`confidence`"] > widths["params.`gamma`"] == widths["params.`lam`"]
    # An interval is not cut.
    assert widths["tags.`val error`"] > widths["params.`confidence`"]
