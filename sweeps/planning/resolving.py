"""The plan of a sweep that is about to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweeps.messages.formatting import shortened
from sweeps.messages.reporter import Reporter
from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.devices import Machines, settle_devices
from sweeps.search.plan import Plan
from sweeps.sweep_file.schema import SweepFile

if TYPE_CHECKING:
    from trainables.data.core.base import Data


def resolve(written: SweepFile, data: Data, machines: Machines, reporter: Reporter) -> Plan:
    """The plan of a checked sweep file, with every default filled in.

    What was noticed in the data and decided about the machines is reported. Only the number of
    epochs may still change, see :mod:`sweeps.search.pilot`.

    Raises:
        UserError: The sweep does not suit its data, or a trial does not fit on the machines.
        SweepFailedError: The cluster's GPUs cannot be examined.
    """
    from trainables.data.core.base import Dataset

    fitted = fit_to_data(written, data) if isinstance(data, Dataset) else written
    for line in (*map(shortened, data.notes), *data.remarks):
        reporter.notice(line)
    settled, decided = settle_devices(fitted, data, machines, reporter)
    if decided is not None:
        reporter.notice(decided)
    return Plan(settled)
