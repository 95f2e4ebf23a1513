"""The option ``--compare``, which replaces four keys: a sweep that compares some losses."""

from __future__ import annotations

from typing import Any

from sweeps.errors import UserError
from sweeps.sweep_file.loading import override_sweep
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.search import SelectionSection
from trainables.contract.setting import BASELINE_LOSS


def with_comparison(sweep: SweepFile, losses: str | None, seeds: int | None) -> SweepFile:
    """A sweep that compares the best settings of some losses in pairs.

    `losses` are names, separated by commas, to which cross-entropy is added; None leaves the sweep
    unchanged. `seeds` is the number of fresh seeds of each; None for the sweep's, or the default
    number if that is ``auto``.

    Raises:
        UserError: A loss is unknown, or there is no loss besides cross-entropy.
    """
    values: dict[str, Any] = {}
    if losses is not None:
        named = [name.strip() for name in losses.split(",") if name.strip()]
        wanted = [name for name in dict.fromkeys(named) if name != BASELINE_LOSS]
        if not wanted:
            raise UserError(
                f"--compare: found {losses!r}; allowed: one loss or more besides {BASELINE_LOSS}, "
                "separated by commas, such as focal,dual_focal"
            )
        given = {each.name: each.model_dump(mode="json") for each in sweep.losses}
        values["losses"] = [given.get(name, name) for name in wanted]
        values["selection.per_loss"] = True
        values["selection.finalists"] = len(wanted)
        if seeds is None and sweep.selection.seeds == "auto":  # it adds seeds to one loss only
            values["selection.seeds"] = SelectionSection().seeds
    if seeds is not None:
        values["selection.seeds"] = seeds
    return override_sweep(sweep.model_dump(mode="json"), values) if values else sweep
