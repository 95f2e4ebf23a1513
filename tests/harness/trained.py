"""Sweeps with trials that are really trained, for about an epoch and without Ray."""

from pathlib import Path

from sweeps.planning.data import data_of
from sweeps.results.explanation import result_of
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.store.encoders import encoder_setup
from sweeps.store.identity import identify, identity_files
from sweeps.store.outcomes import complete
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.config import TrialSetup
from trainables.contract.messages import Progressed, Role
from trainables.contract.setting import Setting
from trainables.trials.making import make_run


def train_sweep(folder: Path, sweep: SweepFile, settings: list[tuple[str, float]]) -> SweepStore:
    """A finished sweep, with the files of its trials.

    Args:
        folder: The storage.
        sweep: The sweep.
        settings: Loss and gamma of each trial after the baseline.
    """
    plan, dataset = Plan(sweep), data_of(sweep)
    store = SweepStore(str(folder), sweep.name)
    store.create(sweep, files=identity_files(identify(sweep.named, dataset)))
    setup = TrialSetup(
        model=sweep.trained.name,
        model_options=sweep.trained.options,
        own_loop=sweep.trainable is not None,
        training=sweep.training.config(),
        trials_uri=store.trials_folder.uri,
        outcome_epochs=(sweep.training.epochs,),
        deciding_metrics=plan.rule.deciding,
        encoder=encoder_setup(plan, store, dataset),
    )
    planned: list[tuple[Role, str, dict[str, float]]] = []
    if sweep.encoder is not None:
        planned.append(("encoder", sweep.encoder.loss.name, {}))
    planned.append(("baseline", "cross_entropy", {}))
    planned += [("search", loss, {"gamma": gamma}) for loss, gamma in settings]
    records = []
    for number, (role, loss, hyperparameters) in enumerate(planned):
        record = TrialRecord(number, role, Setting(loss, dict(hyperparameters)), 0, 1e9)
        run, done = make_run(dataset, setup, record.config), False
        while not done:
            report = run.advance()
            assert isinstance(report, Progressed), report
            record.history += report.entries
            done = report.done
        record.state, record.ended = "finished", 1e9 + 60
        store.save(record)
        records.append(record)
    ranking = Ranking(records, plan.rule)
    for record in complete(ranking.shown, plan, store.rows):
        store.save(record)
    store.save_answer(result_of(ranking, plan).to_json())
    return store
