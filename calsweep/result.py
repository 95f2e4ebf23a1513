"""The result of a sweep, for scripts and notebooks."""

from __future__ import annotations

import io
import math
import os
from collections import deque
from collections.abc import Mapping
from copy import copy
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sweeps.errors import UserError
from sweeps.messages.formatting import DEFAULT_STORAGE, format_loss
from sweeps.results.documents import to_document
from sweeps.results.recommendation import Recommendation
from sweeps.results.refinement import parts_of_nll
from sweeps.results.result import Best
from sweeps.results.verdicts import Comparison
from sweeps.search.record import TrialRecord
from sweeps.service.reading.finding import find_best, read_answer
from sweeps.store.outcomes import complete
from trainables.contract.messages import COSTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sweeps.pages.chart import Chart
    from sweeps.results.verdicts import Split
    from sweeps.service.delivery.delivered import Wanted
    from trainables.export.calibrated import CalibratedClassifier, CalibratedEnsemble
    from trainables.files.rows import Rows


class Result:
    """The result of a sweep, read from its store.

    :func:`calsweep.run`, :func:`calsweep.resume` and :func:`calsweep.load` return it. In a notebook
    it shows the leaderboard and the reasons.

    Attributes:
        name: Name of the sweep.
        storage: Path or URI of the sweep store.
        finished: Whether the sweep ran to its end.
        warnings: Reasons not to use the result, such as that nothing was learned.
        why: The reasons for the selected setting and the verdicts, a sentence each.

    Raises:
        UserError: There is no such sweep, or none of its trials has started.
    """

    def __init__(self, storage: str, name: str) -> None:
        self._sweep, self._found, self.finished = read_answer(name, storage)
        self.name, self.storage = name, self._sweep.store.storage
        self.warnings: tuple[str, ...] = self._found.warnings
        self.why: tuple[str, ...] = self._found.why

    def __reduce__(self) -> tuple[type[Result], tuple[str, str]]:
        """A pickled result reads its store again."""
        return Result, (self.storage, self.name)

    @property
    def best(self) -> Best | None:
        """The selected setting; None if no trial passed the guard."""
        return self._found.selected

    @property
    def supported(self) -> bool:
        """Whether the selected setting is shown to be better than scaled cross-entropy."""
        return self.best is not None and self.best.supported

    @property
    def sweep_file(self) -> str:
        """The complete sweep file (YAML), which reproduces the sweep."""
        from sweeps.service.reading.stored import read_stored_file

        return read_stored_file(self.storage, self.name)

    def table(self, *, all_metrics: bool = False) -> Any:
        """All trials, one row each, as a pandas data frame.

        Trials of the search report the metrics of every epoch and those that decide. Finalists, and
        the best trial of each loss, have all. With ``all_metrics`` those of the others are computed
        from their predictions, which takes a tenth of a second per trial, or more.

        Columns: ``trial`` (number), ``role``, ``state``, ``loss``, ``seed``, ``epochs``,
        ``seconds``, ``reason`` (why it failed or was stopped), the hyperparameters by name
        (``loss.<name>`` if a column already has that name) and the metrics of the last epoch, such
        as ``val_ece``.
        """
        sweep = self._sweep
        records = [copy(record) for record in sweep.ranking.records]
        if all_metrics:
            deque(complete(records, sweep.plan, sweep.store.rows), maxlen=0)
        return _frame([_row(record) for record in records])

    def leaderboard(self) -> Any:
        """The best setting of each loss, best first, as a table like :meth:`table`.

        Columns: ``loss``, ``note`` (such as ``selected``), ``trials`` (number of its trials),
        ``seeds`` (number of fresh seeds), the metrics of the printed leaderboard, means over the
        fresh seeds, and the hyperparameters by name (``loss.<name>`` if a column has that name).
        """
        rows = []
        for found in self._found.rows:
            row = {"loss": found.loss, "note": found.note, "trials": sum(found.trials.values())}
            row |= {"seeds": found.seeds, **found.metrics, "recommended": found.recommended}
            rows.append(row | _own_columns(found.hyperparameters, {*row}))
        return _frame(rows)

    def comparisons(self) -> Any:
        """All verdicts, one row each, as a table like :meth:`table`; empty before the end.

        Columns: ``ours``, ``theirs``, ``metric``, ``value`` (ours minus theirs), ``low`` and
        ``high`` (its interval over samples and seeds), ``verdict`` (``supported``, ``not
        supported`` or ``worse``), ``seeds``, ``split``, and how it is corrected, see
        :class:`~sweeps.evidence.comparison.Comparison`.
        """
        found = [to_document(each) for each in self._found.evidence.all_comparisons]
        return _frame(found, [each.name for each in fields(Comparison)])

    def prediction_sets(self) -> Any:
        """Prediction sets of the finalists and of the ensemble: a table like :meth:`table`.

        Columns: ``label``, ``method`` (``lac``, ``aps`` or ``raps``), ``target`` (how often the
        sets are made to hold the true class), and on the test split ``coverage``, its 95 % interval
        ``low`` and ``high``, and mean ``size``. Empty before the end of the sweep, and for several
        labels or pixels.
        """
        return _frame(
            [vars(each) for each in self._found.evidence.all_sets],
            ["label", "method", "target", "coverage", "low", "high", "size"],
        )

    def by_label(self, split: Split = "test") -> Any:
        """The metrics of the selected setting for each label of multi-label data, one row each.

        A table like :meth:`table`: ``label``, all metrics of its binary decisions, and the same
        with its scaling as ``ece_scaled`` and so on, cross-fitted on the validation split.

        Raises:
            UserError: No setting was selected, or each sample has one class.
        """
        from sweeps.service.reading.stored import class_and_label_names
        from trainables.data.core.tasks import each_label
        from trainables.metrics import evaluate

        trial, (_, names) = self._judged(), class_and_label_names(self._sweep.store)
        if not names:
            raise UserError(
                f"sweep {self.name!r}: each of its samples has one class, not several labels"
            )
        found: list[dict[str, object]] = [{"label": name} for name in names]
        for ending, rows in zip(("", "_scaled"), self._views(split, trial).values(), strict=True):
            logits, labels = (each_label(each, len(names)) for each in rows.tensors())
            for row, *each in zip(found, logits, labels, strict=True):
                row |= {f"{metric}{ending}": value for metric, value in evaluate(*each).items()}
        return _frame(found)

    @property
    def recommended(self) -> Recommendation | None:
        """What to deploy, and why; None while no setting is selected.

        It is cross-entropy with a temperature, unless the evidence says otherwise. :meth:`model`,
        ``calsweep export`` and MLflow's registry deliver it.
        """
        return self._found.recommended

    def model(
        self,
        *,
        selected: bool = False,
        loss: str | None = None,
        trial: int | None = None,
        reference: bool = False,
    ) -> CalibratedClassifier | CalibratedEnsemble:
        """The recommended classifier, trained, a torch module; see :attr:`recommended`.

        It returns calibrated probabilities (N, K) for raw samples: ``model(rows)`` for tensors,
        ``model.predict_proba(raw)`` for arrays, texts and data frames. It contains preprocessing,
        network and temperature; ``torch.save(model, path)`` saves all of them. Of a setting that
        was trained several times it is the network of the first fresh seed, not of the best one.

        Args:
            selected: The selected setting instead.
            loss: The best setting of this loss instead.
            trial: The network of the trial of this number instead.
            reference: The best reference model instead.

        Raises:
            UserError: No setting was selected, the data have changed, the checkpoint was deleted,
                or the sweep has a custom training loop without ``trainable.load``.
        """
        from sweeps.service.delivery.delivered import Wanted

        return self._load(Wanted(selected, loss, trial, reference=reference))

    def ensemble(self) -> CalibratedEnsemble:
        """An ensemble of networks that the sweep has trained, a torch module like :meth:`model`.

        Three to five networks are selected greedily from the finished trials that pass the guard.
        If they are not shown to beat equally many seeds of cross-entropy, these are averaged
        instead. Each has its own temperature, and so has their mean. A prediction costs as much as
        all of its networks. :attr:`why` says what the ensemble gains.

        Raises:
            UserError: There is no ensemble, because fewer than three trials qualify or one network
                is better. Also the reasons of :meth:`model`.
        """
        from sweeps.service.delivery.delivered import Wanted
        from trainables.export.calibrated import CalibratedEnsemble

        found = self._load(Wanted(ensemble=True))
        assert isinstance(found, CalibratedEnsemble)
        return found

    def _load(self, wanted: Wanted) -> CalibratedClassifier | CalibratedEnsemble:
        from sweeps.service.delivery.delivered import deliver, load_delivered
        from sweeps.service.delivery.loading import load_same_data

        delivered = deliver(self._sweep, wanted)
        return load_delivered(self._sweep, load_same_data(self._sweep), delivered)

    def plot_reliability(
        self,
        split: Split = "test",
        loss: str | None = None,
        bins: int = 15,
    ) -> Figure:
        """Reliability diagrams of the selected setting, as trained and with its scaling.

        With ``loss``, of the best setting of this loss. ``bins`` is the number of bins of equal
        width, at least 1.

        Raises:
            UserError: No setting was selected, no trial of the loss finished, or ``bins`` is wrong.
        """
        from sweeps.pages.matplotlib_figures import draw_reliability, new_figure
        from sweeps.service.delivery.delivered import best_of_loss

        if not bins >= 1:
            raise UserError(f"bins = {bins} is not allowed; allowed: 1 or more")

        trial = self._judged() if loss is None else best_of_loss(self._sweep, loss)
        figure = new_figure((7.2, 3.8))
        draw_reliability(figure, self._views(split, trial), bins)
        return figure

    def plot_search(self) -> Figure:
        """Objective against validation error of every trial, as in the report.

        The dashed line is the Pareto front. Hollow marks are trials that were stopped early. The
        shaded errors are beyond the guard; that of finalists with fresh seeds is relative to the
        baseline with fresh seeds.
        """
        from sweeps.pages.figures import error_against_objective

        return self._drawn(error_against_objective(self._sweep.ranking))

    def plot_curves(self) -> Figure:
        """The scheduler's metric by epoch; stopped trials are grey, rungs are dotted lines."""
        from sweeps.pages.figures import curves

        return self._drawn(curves(self._sweep.ranking.records, self._sweep.plan))

    def _drawn(self, chart: Chart) -> Figure:
        from sweeps.pages.matplotlib_figures import draw, new_figure

        figure = new_figure((7.2, 3.8))
        draw(figure, chart)
        return figure

    def __repr__(self) -> str:
        """The leaderboard and the reasons."""
        from sweeps.terminal.answers import print_whole_answer
        from sweeps.terminal.console import plain_console

        text = io.StringIO()
        console = plain_console(width=100, file=text)
        print_whole_answer(console, self._found)
        if not self.finished:
            console.print(
                f"Not finished: calsweep.resume({self.name!r}, storage={self.storage!r}) continues."
            )
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        """The leaderboard and the reasons as HTML, for notebooks."""
        from html import escape

        return f'<pre style="line-height:1.2">{escape(repr(self))}</pre>'

    def _judged(self) -> TrialRecord:
        """The trial that represents the selected setting."""
        if (chosen := self._sweep.ranking.chosen) is None:
            raise UserError(f"sweep {self.name!r} selected no setting: {self.why[0]}")
        return chosen.judged[0]

    def _views(self, split: Split, trial: TrialRecord) -> dict[str, Rows]:
        """A trial's predictions as trained and with its scaling."""
        from sweeps.evidence.scaling import reliability_views

        store, way = self._sweep.store, self._sweep.ranking.rule.scaling
        try:
            return reliability_views(store.rows, trial, way, split)
        except FileNotFoundError:
            raise UserError(
                f"sweep {self.name!r}: the predictions of trial {trial.number} are no longer in "
                f"{self.storage}; was the sweep deleted?"
            ) from None


def load(storage: str | os.PathLike[str], name: str) -> Result:
    """The result of a sweep in the store at this path or URI, finished or not.

    Raises:
        UserError: There is no such sweep, or none of its trials has started.
    """
    return Result(os.fspath(storage), name)


def best(
    *,
    dataset: str | None = None,
    model: str | None = None,
    objective: str | None = None,
    storage: str | os.PathLike[str] | None = None,
) -> list[dict[str, object]]:
    """The best setting per dataset, model and objective over all sweeps of a store.

    Arguments restrict the search. Each dictionary has the fields of ``calsweep best --format
    json``: ``dataset``, ``model``, ``objective``, ``sweep``, ``loss``, ``hyperparameters``,
    ``val``, ``test``, ``temperature``, ``recommended``, ``best`` and so on.

    Raises:
        UserError: No setting matches.
    """
    found = find_best(default_storage(storage), dataset, model, objective).entries
    return [entry.to_json() for entry in found]


def default_storage(storage: str | os.PathLike[str] | None) -> str:
    """``storage``, or ``CALSWEEP_STORAGE`` if None, or the default of the command."""
    return os.fspath(storage or os.environ.get("CALSWEEP_STORAGE") or DEFAULT_STORAGE)


def _frame(rows: list[dict[str, object]], columns: list[str] | None = None) -> Any:
    import pandas as pd  # which MLflow needs

    return pd.DataFrame(rows, columns=columns)


def _row(record: TrialRecord) -> dict[str, object]:
    row: dict[str, object] = {
        "trial": record.number,
        "role": record.role,
        "state": record.state,
        "loss": format_loss(record.loss),
        "seed": record.seed,
        "epochs": record.epochs,
        "seconds": math.nan if record.ended is None else record.ended - record.started,
        "reason": record.reason,
    }
    metrics = {k: v for k, v in record.outcome.items() if k not in ("epoch", *COSTS)}
    metrics |= parts_of_nll(record.outcome)
    own = _own_columns(record.hyperparameters, {*row, *metrics})
    return row | own | metrics


def _own_columns(hyperparameters: Mapping[str, Any], others: set[str]) -> dict[str, object]:
    """The columns of hyperparameters: ``loss.<name>`` if another column has that name."""
    return {
        f"loss.{name}" if name in others else name: value for name, value in hyperparameters.items()
    }
