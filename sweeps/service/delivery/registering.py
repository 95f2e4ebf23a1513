"""Registers the recommended classifier in MLflow; the alias in production follows the evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.evidence.comparison import compare_handed_out
from sweeps.messages.formatting import calsweep_command, counted
from sweeps.planning.checks import use_working_folder
from sweeps.service.delivery.delivered import RECOMMENDED, Delivered, Wanted, deliver, read_on_test
from sweeps.service.delivery.exporting import Builder
from sweeps.service.delivery.loading import load_same_data
from sweeps.service.reading.stored import StoredSweep, sweeps_on_test_split
from sweeps.store.journal import Act, note
from sweeps.tracking.address import check_answers
from sweeps.tracking.kept_address import follow_storage, tracking_uri_of
from sweeps.tracking.registered_models import Alias, Registry, Version
from sweeps.tracking.run_content import journal_tags

if TYPE_CHECKING:
    from trainables.data.core.base import Dataset


def register(name: str, storage: str, wanted: Wanted = RECOMMENDED) -> str:
    """Register a classifier of a sweep in MLflow; see :func:`register_delivered`.

    Raises:
        UserError: See :func:`~sweeps.service.delivery.exporting.export_model`; or MLflow does not
            answer, or does not have the sweep.
    """
    sweep = _tracked(name, storage)
    return register_delivered(sweep, lambda: load_same_data(sweep), wanted)


def register_delivered(
    sweep: StoredSweep, load: Callable[[], Dataset], wanted: Wanted = RECOMMENDED
) -> str:
    """Register a classifier of a sweep, whose data `load` returns, as a new version.

    It becomes ``champion`` if the sweep has ended without warnings, no reference model is better
    than a network, and it is not worse than the present champion on the same test split; otherwise
    ``challenger``. A classifier that this sweep has already registered is not built again. Returns
    one sentence about what happened and why.
    """
    registry, delivered = _registry(sweep), deliver(sweep, wanted)
    version = _version_of(registry, sweep, delivered, load)
    champion = registry.at("champion")
    if champion == version:
        return f"{registry.address('champion')} is this classifier, version {version.number}"
    moves, why = _succession(registry, sweep, delivered, version, champion)
    alias: Alias = "champion" if moves else "challenger"
    registry.move(alias, version)
    _note(sweep, registry, "registered")
    registered = f"{registry.address(alias)} is version {version.number}"
    if moves:
        return f"{registered}: {why}"
    stays = "there is no champion" if champion is None else f"@champion stays {champion.number}"
    words = f"promote {sweep.plan.name} {wanted}".rstrip()
    promote_it = calsweep_command(words, sweep.store.storage)
    return f"{registered}; {stays}: {why}; {promote_it} moves it"


def promote(name: str, storage: str, wanted: Wanted = RECOMMENDED) -> str:
    """Make a classifier of a sweep the champion, in spite of warnings or comparisons.

    Returns one sentence about what happened. Raises UserError as :func:`register` does.
    """
    sweep = _tracked(name, storage)
    registry, delivered = _registry(sweep), deliver(sweep, wanted)
    version = _version_of(registry, sweep, delivered, lambda: load_same_data(sweep))
    before = registry.at("champion")
    registry.move("champion", version)
    _note(sweep, registry, "promoted")
    was = f", after version {before.number}" if before not in (None, version) else ""
    return f"{registry.address('champion')} is version {version.number}{was}"


def _note(sweep: StoredSweep, registry: Registry, act: Act) -> None:
    note(sweep.store.folder, act)
    registry.tag_run(journal_tags(sweep.store.folder))


def _tracked(name: str, storage: str) -> StoredSweep:
    sweep = StoredSweep.read(name, storage)
    use_working_folder()
    check_answers(tracking_uri_of(sweep.store, sweep.plan.sweep.tracking.uri))
    return sweep


def _registry(sweep: StoredSweep) -> Registry:
    plan, store = sweep.plan, sweep.store
    parent, _ = store.load_run_ids()
    if parent is None:
        sync = calsweep_command(f"sync {plan.name}", store.storage)
        raise UserError(f"MLflow does not have sweep {plan.name!r} yet; {sync} writes it")
    uri = tracking_uri_of(store, plan.sweep.tracking.uri)
    follow_storage(uri, store.storage, store.name)
    return Registry(uri, parent, f"calsweep-{plan.sweep.dataset.label}")


def _version_of(
    registry: Registry, sweep: StoredSweep, delivered: Delivered, load: Callable[[], Dataset]
) -> Version:
    """The registered version of a classifier, which is built only if there is none."""
    if (known := registry.version_of(delivered.number)) is not None:
        return known
    return registry.add(Builder(sweep, load()).to_register(delivered))


def _succession(
    registry: Registry,
    sweep: StoredSweep,
    delivered: Delivered,
    version: Version,
    champion: Version | None,
) -> tuple[bool, str]:
    """Whether a new version becomes the champion, and why."""
    if not sweep.has_ended:
        return False, "the sweep has not ended"
    if warnings := sweep.result.warnings:
        return False, f"the sweep has {counted(len(warnings), 'warning')}"
    if (better := sweep.result.evidence.better_reference) and not delivered.is_reference:
        return False, better.removesuffix(".")
    if champion is None:
        return True, "the sweep has no warnings, and there was no champion"
    if champion.test_split != version.test_split:
        return False, f"version {champion.number} was evaluated on another test split"
    ours, theirs = read_on_test(sweep, delivered), registry.on_test(champion)
    if ours is None or theirs is None:
        return False, f"predictions to compare it with {champion.number} are missing"
    try:
        found = compare_handed_out(ours, theirs, sweeps_on_test_split(sweep.store))
    except ValueError as error:  # other classes
        return False, f"compared with version {champion.number}, {error}"
    words = "worse" if found.verdict == "worse" else "not worse"
    by_nll = f"by NLL on the test split ({found.difference})"
    return found.verdict != "worse", f"it is {words} than version {champion.number} {by_nll}"
