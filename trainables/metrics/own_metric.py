"""A custom metric as the objective: ``search.objective: package.module:function``."""

from collections.abc import Callable, Iterable
from typing import Final

import torch
from torch import Tensor

from trainables.metrics import METRICS
from trainables.plugins.arguments import describe_error
from trainables.plugins.components import Catalogue

OwnMetric = Callable[[Tensor, Tensor], float]
CATALOGUE: Final = Catalogue(kind="objective", group="calsweep.objectives", ours={})
_SAMPLES: Final = 64


def metric_name(path: str) -> str:
    """The name of the metric in results: the name of the function."""
    return path.rpartition(":")[2]


def own_metric(path: str) -> OwnMetric:
    """The function at ``package.module:function``.

    Raises:
        ValueError: The function does not exist, or it has the name of a metric of calsweep.
    """
    if (name := metric_name(path)) in METRICS:
        raise ValueError(
            f"objective {path!r} is called as a metric of calsweep, {name}; give it another name"
        )
    return CATALOGUE.find(path)  # type: ignore[no-any-return]


def own_metrics(paths: Iterable[str]) -> dict[str, OwnMetric]:
    """The functions at these paths by name; errors as in :func:`own_metric`."""
    return {metric_name(path): own_metric(path) for path in paths}


def check_own_metric(path: str, num_classes: int) -> None:
    """Raises ``ValueError`` unless a custom metric of random predictions is a number."""
    function = own_metric(path)
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(_SAMPLES, num_classes, generator=draw, dtype=torch.float64)
    labels = torch.arange(_SAMPLES) % num_classes
    try:
        float(function(logits.softmax(dim=1), labels))
    except Exception as error:  # a user's function may raise anything
        raise ValueError(
            f"objective {path!r} failed on random predictions ({describe_error(error)}); it is "
            f"given probabilities (N, {num_classes}), float64, and labels (N,), int64, and returns "
            "a number, the lower the better"
        ) from error
