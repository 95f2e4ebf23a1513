"""Run and resume sweeps from a script or a notebook."""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from calsweep.composing import Composer, Section
from calsweep.result import Result, default_storage, load
from sweeps.errors import NameTakenError, SweepInterruptedError, UserError
from sweeps.sweep_file.loading import load_sweep, override_sweep
from trainables.plugins.arguments import did_you_mean

if TYPE_CHECKING:
    from sweeps.service.running import RunOptions
    from sweeps.sweep_file.schema import SweepFile


P = ParamSpec("P")
T = TypeVar("T")


def _with_hints(function: Callable[P, T]) -> Callable[P, T]:
    """A function that says which argument an unknown one is like."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        for key in named:
            if key not in known:
                raise TypeError(
                    f"{function.__name__}() has no argument {key!r}{did_you_mean(key, known)}; "
                    'values of the sweep file are set={"training.lr": 0.05}'
                )
        return function(*arguments, **named)

    return call


@_with_hints
def run(
    sweep: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    dataset: Any = None,
    groups: Any = None,
    model: Any = None,
    trainable: Any = None,
    losses: Any = None,
    epochs: int | None = None,
    trials: int | None = None,
    name: str | None = None,
    storage: str | os.PathLike[str] | None = None,
    address: str | None = None,
    set: Mapping[str, Any] | None = None,
    or_resume: bool = False,
    progress: bool = True,
    debug: bool = False,
) -> Result:
    """Runs a sweep and returns its result.

    Give either a sweep file, or data, model and losses in memory. A script needs no ``if __name__
    == "__main__"``.

    >>> result = calsweep.run("birds.yaml", set={"training.epochs": 5})
    >>> result = calsweep.run(
    ...     dataset=(X, y),
    ...     model=lambda num_classes: nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes)),
    ...     losses=["focal", calsweep.loss("mbls", margin=(1, 20))],
    ...     epochs=20,
    ...     trials=40,
    ... )

    Args:
        sweep: Path of a sweep file, the name of a ready-made sweep (``quickstart``), or the content
            of a sweep file.
        dataset: Samples and labels ``(X, y)``, from which test and validation samples are held out;
            or two such pairs, ``(train, test)``, or three, ``(train, validation, test)``. Samples
            are arrays or CPU tensors (uint8 of shape (N, H, W), (N, C, H, W) or (N, H, W, C) are
            images, other numbers (N, ...) are used unchanged), texts, or a data frame of numbers
            and categories. Labels are words or integers from 0, (N,), class probabilities (N, K),
            or booleans (N, L) for multi-label data. Weights of training samples, (N,), may follow:
            ``(X, y, sample_weight)``. All are written once to ``<storage>/data``. Alternatively,
            the name of a dataset, a section ``dataset`` of a sweep file, or a function that loads a
            dataset.
        groups: The customer, patient ... of each sample of ``dataset`` in memory, (N,), if several
            samples are of one; for two or three parts, a tuple of as many arrays. No group is then
            in two splits, and intervals and verdicts take groups as the unit. ``"equal_rows"``
            keeps samples of equal content in one split.
        model: A function or class that builds a module with random weights for each trial. It may
            take any of the arguments ``num_classes``, ``input_shape`` and ``samples``. The module
            ends in a linear layer that outputs the logits. It may be defined anywhere, including a
            notebook. Alternatively, the name of a model, or a section ``model``. Or a module, from
            whose layers ``reset_parameters()`` draws new weights for each trial; if that is
            impossible, or the weights are already trained, it is rejected. None selects the default
            for the kind of data.
        trainable: Instead of a model, a custom training loop: a function that takes ``trial``
            (:class:`calsweep.Trial`) and reports each epoch. Or a section ``trainable``, such as
            ``{"name": train, "load": load}``, where ``load`` returns the trained model.
        losses: Names of losses, results of :func:`loss`, or your own loss classes.
        epochs: ``training.epochs``, the number of epochs per trial.
        trials: ``search.trials``, the number of trials of the search.
        name: Name of the sweep, and in MLflow also of a dataset in memory. None uses the name in
            the sweep file, or ``sweep-1`` and so on.
        storage: Path or URI of the sweep store. None uses ``CALSWEEP_STORAGE``, or
            ``calsweep-store`` if that is not set.
        address: Address of a Ray cluster, ``host:port`` or ``auto``; None runs on this machine. All
            nodes must be able to reach the storage. On this machine Ray runs on afterwards, for the
            next sweep, until Python ends or you call ``ray.shutdown()``.
        set: Values of the sweep file by dotted key, ``{"training.lr": 0.05}``.
        or_resume: Whether to resume the sweep if one of this name exists, so that a cell or a
            script can be run again. Only its budgets may have changed.
        progress: Whether to print progress.
        debug: Whether to train in this process, one trial after the other and without Ray, so that
            breakpoints in your model, loss or loop work. The results are the same.

    Raises:
        UserError: An argument is not allowed; the message says what is allowed.
        SweepFailedError: Every trial failed.
        SweepInterruptedError: Ctrl-C or the notebook's stop button; :func:`resume` continues.
    """
    place = default_storage(storage)
    composer = Composer(place)
    options = _options(address, debug=debug, progress=progress)
    given = {"dataset": dataset, "groups": groups, "losses": losses}
    given |= {"model": model, "trainable": trainable}
    values = {"training.epochs": epochs, "search.trials": trials}
    values = {key: value for key, value in values.items() if value is not None} | dict(set or {})
    if sweep is not None:
        if not isinstance(sweep, str | os.PathLike | Mapping):
            raise UserError(
                f"sweep is a {type(sweep).__name__}; allowed: the path or content of a sweep file, "
                "the name of a ready-made sweep; give data by dataset="
            )
        if twice := [key for key, value in given.items() if value is not None]:
            raise UserError(f"{twice[0]} is given besides a sweep, which has one; give one of them")
        if isinstance(sweep, Mapping):
            resolved = override_sweep(dict(sweep), values, name, default_origin="calsweep.run")
        else:
            resolved = load_sweep(os.fspath(sweep), values, name)
    else:
        resolved = _compose(given, values, name, composer)
    if sweep is None and name is None:
        if or_resume:
            raise UserError(
                "or_resume = True: name is missing; give the name of the sweep to resume"
            )
        return _run_under_free_name(resolved, composer, options)
    if not or_resume:
        _check_new(resolved.name, place)
    return _run(resolved, place, options, or_resume=or_resume)


@_with_hints
def resume(
    name: str,
    *,
    storage: str | os.PathLike[str] | None = None,
    address: str | None = None,
    set: Mapping[str, Any] | None = None,
    progress: bool = True,
    debug: bool = False,
) -> Result:
    """Continues an interrupted sweep; finished trials are not run again.

    ``set`` changes budgets, such as ``{"search.max_hours": 8}``. For the other arguments and errors
    see :func:`run`.

    Raises:
        UserError: There is no such sweep, or it is running.
    """
    place = default_storage(storage)
    from sweeps.service.running import resume_sweep

    try:
        resume_sweep(name, place, set or {}, **_options(address, debug=debug, progress=progress))
    except SweepInterruptedError:
        raise _interrupted(name, place) from None
    return load(place, name)


def loss(name: Any, **hyperparameters: Any) -> Section:
    """A loss with your own ranges or values, for ``run(losses=[...])``.

    >>> calsweep.loss("mbls", margin=(1, 20), lam=0.1)
    >>> calsweep.loss("focal", gamma=[1, 2, 3])
    >>> calsweep.loss("label_smoothing", alpha=(0.001, 0.1, "log"))

    Args:
        name: Name of the loss, or a class.
        **hyperparameters: A range ``(low, high)`` or ``(low, high, "log")``, a list of choices, or
            a fixed value per hyperparameter. The others keep their default range.

    Raises:
        UserError: A value has none of these forms.
    """
    section: Section = {"name": name, "space": {}, "hyperparameters": {}}
    for key, given in hyperparameters.items():
        if isinstance(given, list):
            section["space"][key] = {"choices": given}
        elif not isinstance(given, tuple):
            section["hyperparameters"][key] = given
        elif len(given) == 2 or (len(given) == 3 and given[2] == "log"):
            section["space"][key] = {"low": given[0], "high": given[1], "log": len(given) == 3}
        else:
            raise UserError(
                f"loss {name}: {key} = {given!r} is not allowed; allowed: (low, high), "
                '(low, high, "log"), a list of choices, or a value'
            )
    return section


def _options(address: str | None, *, debug: bool, progress: bool) -> RunOptions:
    from sweeps.terminal.console import plain_console

    return {
        "address": address,
        "debug": debug,
        "console": plain_console(lasting=progress, file=None if progress else io.StringIO()),
        "keep_ray": True,  # starting it takes seconds, and a notebook runs more than one sweep
    }


def _run(sweep: SweepFile, storage: str, options: RunOptions, *, or_resume: bool = False) -> Result:
    from sweeps.service.running import run_or_resume, run_sweep

    begin = run_or_resume if or_resume else run_sweep
    try:
        begin(sweep, storage, **options)
    except SweepInterruptedError:
        raise _interrupted(sweep.name, storage) from None
    return load(storage, sweep.name)


def _run_under_free_name(sweep: SweepFile, composer: Composer, options: RunOptions) -> Result:
    """Runs under the first free name, or under the next if another process takes it first."""
    for name in composer.free_names():
        with suppress(NameTakenError):
            return _run(sweep.model_copy(update={"name": name}), composer.storage, options)
    raise AssertionError("there is always a further name")


def _compose(
    given: Mapping[str, Any], values: Mapping[str, Any], name: str | None, composer: Composer
) -> SweepFile:
    for key in ("dataset", "losses"):
        if given[key] is None:
            raise UserError(f"{key} is missing; give dataset and losses, or a sweep file")
    dataset = composer.dataset(given["dataset"], given["groups"])
    if name is not None and isinstance(dataset, dict) and isinstance(given["dataset"], tuple):
        dataset["title"] = name
    tree: Section = {
        "name": name or next(composer.free_names()),
        "dataset": dataset,
        "losses": composer.losses(given["losses"]),
    }
    if given["model"] is not None:
        tree["model"] = composer.model(given["model"])
    if given["trainable"] is not None:
        tree["trainable"] = composer.trainable(given["trainable"])
    return override_sweep(tree, values, default_origin="calsweep.run")


def _check_new(name: str, storage: str) -> None:
    from sweeps.store.sweep_store import SweepStore

    if SweepStore(storage, name).exists():
        raise UserError(
            f"name = {name!r}: a sweep of this name exists in {storage}; continue it with "
            f"{_call('resume', name, storage)}, or choose another name"
        )


def _interrupted(name: str, storage: str) -> SweepInterruptedError:
    return SweepInterruptedError(f"interrupted; {_call('resume', name, storage)} continues it")


def _call(function: str, name: str, storage: str) -> str:
    return f"calsweep.{function}({name!r}, storage={storage!r})"
