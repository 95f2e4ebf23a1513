"""How busy a machine is, by MLflow's own measures and names."""

from __future__ import annotations

from sweeps.tracking.internals import machine_monitors


class Machine:
    """This machine, asked again and again."""

    def __init__(self) -> None:
        self._monitors = machine_monitors()

    def sample(self) -> dict[str, float]:
        """CPUs, memory, disk, network since the first time, and each GPU, where there are any.

        The share of the CPUs is that since the last time; that of the first time says nothing.
        """
        found: dict[str, float] = {}
        for monitor in self._monitors:
            monitor.collect_metrics()
            found |= monitor.aggregate_metrics()
            monitor.clear_metrics()
        return found
