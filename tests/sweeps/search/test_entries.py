"""Compact storage of the metrics of an epoch."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from sweeps.search.entries import CompactEntry

numbers = st.floats(allow_nan=False) | st.booleans() | st.integers(-(2**53), 2**53)


@given(st.dictionaries(st.text(), numbers))
def test_entries_equal_their_dicts(metrics: dict[str, float]) -> None:
    entry = CompactEntry(metrics)
    assert entry == metrics and metrics == entry
    assert list(entry.items()) == list(metrics.items())
    assert [type(value) for value in entry.values()] == [type(v) for v in metrics.values()]
    assert {"epoch": 1, **entry} == {"epoch": 1, **metrics}
    assert "none" not in entry or "none" in metrics
    assert repr(entry) == repr(metrics)


def test_epochs_with_the_same_names_share_them() -> None:
    made = [CompactEntry({f"val_{i}": float(i + j) for i in range(50)}) for j in range(2)]
    assert made[0]["val_7"] == 7.0 and made[1]["val_7"] == 8.0
    assert next(iter(made[0])) is next(iter(made[1]))
    as_dict = dict(made[0])
    whole = sys.getsizeof(as_dict) + sum(map(sys.getsizeof, as_dict.values()))
    own = sys.getsizeof(made[0]) + sys.getsizeof(made[0]._values)
    assert own < whole / 4
