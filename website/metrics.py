"""The metrics page's tables."""

from __future__ import annotations

import inspect

from trainables.metrics import METRICS


def table() -> str:
    """Name, definition, function, and whether lower or higher is better."""
    lines = ["| metric | what it is | better | function |", "| --- | --- | --- | --- |"]
    for metric in METRICS.values():
        function = getattr(metric.function, "func", metric.function)
        better = "higher" if metric.higher_is_better else "lower"
        lines.append(
            f"| `{metric.name}` | {metric.description} | {better} | `{function.__name__}` |"
        )
    return "\n".join(lines)


def classes() -> str:
    """The classes of torchmetrics."""
    from calsweep import metrics
    from calsweep.metrics import class_names

    lines = ["| class | metric | its options (default) |", "| --- | --- | --- |"]
    for class_name, metric in class_names().items():
        own = [
            f"`{key}` ({option.default!r})"
            for key, option in inspect.signature(getattr(metrics, class_name)).parameters.items()
            if option.kind is option.KEYWORD_ONLY
        ]
        lines.append(f"| `{class_name}` | `{metric}` | {', '.join(own) or '–'} |")
    return "\n".join(lines)
