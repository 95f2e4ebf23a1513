"""Which classifier of a sweep is exported, registered or loaded: by default the recommended one."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.evidence.scaling import scaled_rows
from sweeps.messages.formatting import calsweep_command, format_loss
from sweeps.results.recommendation import Recommendation
from sweeps.results.reference import deliverable
from sweeps.results.result import SweepResult
from sweeps.search.record import TrialRecord
from sweeps.service.delivery.loading import load_ensemble, load_trained, select_ensemble
from sweeps.service.reading.stored import StoredSweep, class_and_label_names
from trainables.contract.setting import loss_name
from trainables.files.rows import Rows
from trainables.plugins.arguments import did_you_mean, few

if TYPE_CHECKING:
    from sweeps.evidence.ensemble import Selected
    from sweeps.judging.inputs import Predicted
    from trainables.data.core.base import Dataset
    from trainables.export.calibrated import CalibratedClassifier, CalibratedEnsemble


@dataclass(frozen=True)
class Wanted:
    """Which classifier is asked for; without any of these the recommended one.

    Attributes:
        selected: The setting with the best validation objective.
        loss: The best setting of this loss.
        trial: The network of the trial of this number.
        ensemble: The networks that the sweep offers.
        reference: The best reference model.

    Raises:
        UserError: More than one is given.
    """

    selected: bool = False
    loss: str | None = None
    trial: int | None = None
    ensemble: bool = False
    reference: bool = False

    def __post_init__(self) -> None:
        if len(self._given) > 1:
            raise UserError(f"{' and '.join(self._given)}: allowed: one of them")

    def __str__(self) -> str:
        """What asks for it, such as ``trial 7``; empty for the recommended one."""
        return " ".join(self._given)

    @property
    def _given(self) -> list[str]:
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return [
            name if value is True else f"{name} {value}"
            for name, value in values
            if value is not None and value is not False
        ]


RECOMMENDED = Wanted()


@dataclass(frozen=True)
class Delivered:
    """A classifier of a sweep.

    Attributes:
        networks: One trial's network or a reference model, or several networks.
        recommended: Whether it is the recommended one.
        why: The reason for the recommendation; otherwise what is recommended instead.
    """

    networks: TrialRecord | Selected
    recommended: bool
    why: str

    @property
    def is_reference(self) -> bool:
        return isinstance(self.networks, TrialRecord) and self.networks.number < 0

    @property
    def number(self) -> str:
        """The numbers of its trials, such as ``7`` or ``1-4``, by which registries know it."""
        if self.is_reference:
            return "reference"
        return "-".join(map(str, _numbers(self.networks)))


def deliver(sweep: StoredSweep, wanted: Wanted = RECOMMENDED) -> Delivered:
    """The classifier that is asked for.

    Raises:
        UserError: There is none, or its files are damaged.
    """
    result = sweep.result
    recommended = result.recommended
    if wanted.reference:
        return _reference(result)
    networks = _find(sweep, wanted, recommended)
    if recommended is not None and recommended.trials == _numbers(networks):
        why = f"{recommended.better_reference} {recommended.why}".lstrip()
        return Delivered(networks, True, why)
    instead = "" if recommended is None else f" {recommended.text}"
    return Delivered(networks, False, f"Asked for: {wanted}.{instead}")


def _reference(result: SweepResult) -> Delivered:
    found, name = deliverable(result.evidence.references), result.sweep
    if found is None:
        raise UserError(
            f"sweep {name!r} has no reference model; they are fitted at the end of a sweep, unless "
            "reference is none or its kind of data has none",
            "reference",
        )
    if better := result.evidence.better_reference:
        return Delivered(found.record, True, better)
    instead = "" if result.recommended is None else f" {result.recommended.text}"
    return Delivered(found.record, False, f"Asked for: reference.{instead}")


def load_delivered(
    sweep: StoredSweep, dataset: Dataset, delivered: Delivered
) -> CalibratedClassifier | CalibratedEnsemble:
    """Its networks with their scaling; UserError without checkpoints."""
    networks = delivered.networks
    if isinstance(networks, TrialRecord):
        return load_trained(sweep, dataset, networks)
    return load_ensemble(sweep, dataset, networks)


def read_on_test(sweep: StoredSweep, delivered: Delivered) -> Rows | None:
    """Its predictions on the test split, with its scaling; None if they cannot be read."""
    networks, store = delivered.networks, sweep.store
    try:
        if isinstance(networks, TrialRecord):
            return scaled_rows(store.rows, networks, sweep.plan.rule.scaling)
        logits = networks.on_test.logits
        rows = store.rows("test", networks.trials[0].number)
    except (OSError, ValueError):
        return None
    return replace(rows, logits=logits.float().numpy())


def predicted_on_test(name: str, storage: str) -> Predicted:
    """The predictions of a sweep's recommended classifier on the test split, as `judge` takes them.

    Raises:
        UserError: There is none, or several decisions per sample.
    """
    from sweeps.judging.inputs import predicted_of_rows

    sweep = StoredSweep.read(name, storage)
    rows = read_on_test(sweep, deliver(sweep))
    if rows is None or rows.per_sample > 1:
        raise UserError("its predictions on the test split cannot be judged", "against", name)
    classes, _ = class_and_label_names(sweep.store)
    return predicted_of_rows(name, rows, classes)


def _find(
    sweep: StoredSweep, wanted: Wanted, recommended: Recommendation | None
) -> TrialRecord | Selected:
    name, ranking = sweep.plan.name, sweep.ranking
    if wanted.ensemble:
        return select_ensemble(sweep)
    if wanted.trial is not None:
        return _of_number(sweep, wanted.trial)
    if wanted.loss is not None:
        return best_of_loss(sweep, wanted.loss)
    if recommended is None or ranking.chosen is None:
        show = calsweep_command(f"show {name}", sweep.store.storage)
        raise UserError(f"sweep {name!r} has no selected setting yet; see {show}")
    if wanted.selected:
        return ranking.chosen.judged[0]
    if recommended.kind == "ensemble":
        return select_ensemble(sweep)
    return next(r for r in ranking.records if (r.number,) == recommended.trials)


def _of_number(sweep: StoredSweep, number: int) -> TrialRecord:
    finished = [r for r in sweep.ranking.records if r.state == "finished"]
    known = {r.number: r for r in finished if "temperature" in r.outcome}
    if number not in known:
        raise UserError(
            f"no finished classifier of sweep {sweep.plan.name!r}; allowed: "
            f"{few(known, 20) or 'none yet'}",
            "trial",
            number,
        )
    return known[number]


def best_of_loss(sweep: StoredSweep, loss: str) -> TrialRecord:
    """The trial that represents the best setting of a loss; UserError if none has finished."""
    best = {format_loss(name): best for name, best in sweep.ranking.best_by_loss.items()}
    asked = format_loss(loss_name(loss))
    if asked not in best:
        raise UserError(
            f"no trial of it has finished in sweep {sweep.plan.name!r}"
            f"{did_you_mean(loss, best)}; allowed: {few(best, 20) or 'none yet'}",
            "loss",
            loss,
        )
    return best[asked].judged[0]


def _numbers(networks: TrialRecord | Selected) -> tuple[int, ...]:
    if isinstance(networks, TrialRecord):
        return (networks.number,)
    return tuple(sorted({trial.number for trial in networks.trials}))
