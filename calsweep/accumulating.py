"""The metrics as torchmetrics classes: update per batch, compute over all workers."""

from __future__ import annotations

import inspect
from functools import cache, partial
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch import distributed as dist
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat
from torchmetrics.utilities.distributed import gather_all_tensors

from trainables.metrics import METRICS, evaluate
from trainables.metrics._inputs import PROBABILITIES_REFUSED, check_logits, seem_probabilities

_EXAMPLE: Final = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
_AS_LOGITS: Final = inspect.signature(check_logits).parameters["probabilities_as_logits"]
_LEAST_BATCH: Final = 4  # a row of logits sums to one by chance, four in a row do not
_DTYPES: Final = (torch.float32, torch.float64, torch.int64)  # of logits and labels


class AccumulatedMetric(Metric):
    """A metric over all samples of all workers since the last ``reset()``.

    It stores logits and labels, because a binned, ranked or smoothed error is not a mean over
    batches. In a ``torchmetrics.MetricCollection``, all metrics of this package share one copy.

    Args:
        probabilities_as_logits: Take the softmax also of logits that look like probabilities: all
            in [0, 1], and each row sums to one. By default ``compute()`` refuses them, also if
            only one batch of at least four samples looks so.
        **options: Options of the metric function, such as ``num_bins``, and of
            ``torchmetrics.Metric``, such as ``compute_on_cpu`` or ``process_group``.

    Raises:
        TypeError: An option is unknown.
        ValueError: An option has a value that is not allowed.
    """

    full_state_update = False
    is_differentiable = False
    plot_lower_bound = 0.0
    _name = ""
    logits: list[Tensor]
    labels: list[Tensor]
    suspicious: list[Tensor]

    def __init__(self, *, probabilities_as_logits: bool = False, **options: Any) -> None:
        self._as_logits = probabilities_as_logits
        allowed = _options(self._name)
        self._own = {key: options.pop(key) for key in list(options) if key in allowed}
        try:
            super().__init__(**{"dist_sync_fn": gather_rows} | options)
        except ValueError as error:  # the message of torchmetrics names only its own options
            raise TypeError(
                f"{type(self).__name__}: {error}; allowed: {', '.join(allowed) or 'none'}, and "
                "the options of torchmetrics.Metric"
            ) from None
        METRICS[self._name].function(_EXAMPLE, torch.tensor([0, 1]), **self._own)
        self.add_state("logits", default=[], dist_reduce_fx="cat")
        self.add_state("labels", default=[], dist_reduce_fx="cat")
        self.add_state("suspicious", default=[], dist_reduce_fx="cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds a copy of a batch; the names are those of torchmetrics.

        Args:
            preds: Logits, shape (N, K), floats, finite or -inf; not probabilities. N may be 0.
            target: True classes, shape (N,), integers.

        Raises:
            TypeError: preds are not floats, or target not integers.
            ValueError: Shapes or values are not as above, or K differs from earlier batches.
        """
        if preds.ndim == 2 and preds.shape[:1] == target.shape == (0,):
            return
        # compute() refuses probabilities: a few samples may look so by chance.
        scores, targets = check_logits(preds.detach(), target, probabilities_as_logits=True)
        if self.logits and self.logits[0].shape[1] != scores.shape[1]:
            raise ValueError(
                f"logits have {scores.shape[1]} classes, earlier batches {self.logits[0].shape[1]}"
            )
        self.logits.append(scores.clone())
        self.labels.append(targets.clone())
        if not self._as_logits and len(preds) >= _LEAST_BATCH:
            self.suspicious.append(seem_probabilities(preds.detach()).long()[None])

    def compute(self) -> Tensor:
        """The value over all samples, in torch's default dtype; NaN if all batches were empty.

        Raises:
            ValueError: There was no batch, or the logits, or those of a batch, look like
                probabilities.
        """
        if len(self.logits) == 0 and self.update_called:
            return torch.tensor(torch.nan, device=self.device)
        logits, labels = check_logits(
            dim_zero_cat(self.logits),
            dim_zero_cat(self.labels),
            probabilities_as_logits=self._as_logits,
        )
        if len(self.suspicious) > 0 and dim_zero_cat(self.suspicious).any():
            raise ValueError(
                f"logits of a batch look like probabilities: all {PROBABILITIES_REFUSED}"
            )
        if self._own:
            value = METRICS[self._name].function(logits.softmax(1), labels, **self._own)
        else:
            found = evaluate(logits, labels, [self._name], probabilities_as_logits=True)
            value = found[self._name]
        return torch.tensor(value, dtype=torch.get_default_dtype(), device=self.device)

    plot = Metric._plot  # of one value or several, by default that of compute()


@cache
def metric_class(name: str, class_name: str) -> type[AccumulatedMetric]:
    """The torchmetrics class of a metric, with this name."""
    metric = METRICS[name]
    described = {
        "__doc__": f"{metric.description[0].upper()}{metric.description[1:]}.\n\n"
        f"{inspect.getdoc(AccumulatedMetric)}",
        "__module__": "calsweep.metrics",
        "__qualname__": class_name,
        "__signature__": inspect.Signature(
            [
                *(
                    option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                    for option in _options(name).values()
                ),
                _AS_LOGITS,
                inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD),
            ]
        ),
        "_name": name,
        "higher_is_better": metric.higher_is_better,
    }
    return type(class_name, (AccumulatedMetric,), described)


def gather_rows(rows: Tensor, group: Any = None) -> list[Tensor]:
    """Gathers the rows (n, K) or (n,) of each worker; a worker may have none, (0,) of any dtype.

    torchmetrics' own function treats a worker without samples as one with a float vector of length
    0. It then fails or hangs, because shape and dtype differ from the other workers'.

    Raises:
        ValueError: K differs between workers.
    """
    width = rows.shape[1] if rows.dim() == 2 else 0
    mine = torch.tensor([len(rows), width, _DTYPES.index(rows.dtype)], device=rows.device)
    everyones = [torch.zeros_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyones, mine, group)
    kinds = {(kind[1], kind[2]) for kind in (row.tolist() for row in everyones) if kind[0]}
    widths = sorted({width for width, _ in kinds})
    if len(widths) > 1:
        raise ValueError(f"workers have logits of {widths} classes; they must be the same")
    if kinds:
        width, dtype = widths[0], _DTYPES[max(code for _, code in kinds)]
        rows = (rows if len(rows) else rows.new_zeros((0, width) if width else (0,))).to(dtype)
    return cast("list[Tensor]", gather_all_tensors(rows, group))


@cache
def _options(name: str) -> dict[str, inspect.Parameter]:
    """The options of a metric function that the metric's name does not fix."""
    function = METRICS[name].function
    fixed = function.keywords if isinstance(function, partial) else {}
    parameters = list(inspect.signature(function).parameters.items())
    return {key: value for key, value in parameters[2:] if key not in fixed}
