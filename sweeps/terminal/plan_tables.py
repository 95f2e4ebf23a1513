"""The plan of a sweep, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType

from sweeps.planning.preview import describe_range, plan_facts
from sweeps.search.plan import ANY_NUMBER_OF_CLASSES, Plan
from sweeps.terminal.console import facts_table, new_table


def plan_tables(plan: Plan, of_data: Mapping[str, str] | None = None) -> list[RenderableType]:
    """The plan with facts about the data as a list, and the table of the search space."""
    space = new_table("loss", "hyperparameter", "search range", "published settings")
    published = plan.space.initial_settings(ANY_NUMBER_OF_CLASSES)[1:]
    for loss, branch in plan.space.branches.items():
        count = sum(setting.loss == loss for setting in published)
        rows = [(name, describe_range(d)) for name, d in branch.items()] or [("–", "")]
        for index, (name, values) in enumerate(rows):
            first = index == 0
            space.add_row(loss if first else "", name, values, str(count) if first else "")
    return ["", facts_table(plan_facts(plan) | dict(of_data or {})), "", space, ""]
