"""``calsweep check``: the plan of a sweep file, before anything is started."""

from __future__ import annotations

from optuna.distributions import BaseDistribution, CategoricalDistribution

from sweeps.messages.formatting import counted, format_hyperparameters, format_value
from sweeps.search.recorded import recorded_settings
from sweeps.search.rules import rule_of
from sweeps.search.seed_counts import SeedCounts
from sweeps.search.space import SearchSpace
from sweeps.search.stopping import make_stopper
from sweeps.sweep_file.schema import DEFAULT_MODEL, ScalingSection, SweepFile, TrainingSection
from sweeps.sweep_file.sections.search import GUIDED

ANY_NUMBER_OF_CLASSES = 10
_GUIDED_TRIALS = (6, 34)  # after how many a guided search ended, fewest and most: docs/search.md


def planned_trials(sweep: SweepFile) -> int:
    """The total number of trials of a sweep, if every finalist passes the guard."""
    trials = _trials(sweep)
    encoders = len(sweep.seeds) if sweep.encoder else 0
    return trials + SeedCounts.of(sweep).most_trials(trials) + encoders


def pilot_epochs(sweep: SweepFile) -> int:
    """The most epochs of the pilot; see :mod:`sweeps.search.pilot`."""
    return sweep.training.epochs if sweep.training.patience is not None else 0


def most_epochs(sweep: SweepFile) -> int:
    """The total number of epochs of the pilot and all trials, if none is stopped early."""
    trials = _trials(sweep)
    found = (trials + SeedCounts.of(sweep).most_trials(trials)) * sweep.training.epochs
    found += pilot_epochs(sweep)
    if sweep.search.max_epochs is not None:
        found = min(found, sweep.search.max_epochs)
    if sweep.encoder:
        found += len(sweep.seeds) * sweep.encoder.training.epochs
    return found


def _trials(sweep: SweepFile) -> int:
    space = SearchSpace(sweep)
    return space.most_trials(sweep.search.trials, space.initial_settings(ANY_NUMBER_OF_CLASSES))


def plan_facts(sweep: SweepFile) -> dict[str, str]:
    trials = _trials(sweep)
    again = SeedCounts.of(sweep).most_trials(trials)
    most = sweep.scaling.max_concurrent
    return {
        "sweep": sweep.name,
        "dataset": sweep.dataset.label,
        **_trained_fact(sweep),
        **_encoder_facts(sweep),
        "trials": _stages(sweep, trials),
        "finalists": f"at most {again} more: {_finalists(sweep)}{_further(sweep)}"
        if again
        else "none",
        **_epoch_facts(sweep),
        **_budget_facts(sweep, trials),
        "selected by": ("the Pareto front of " if rule_of(sweep).others else "")
        + f"{' and '.join(sweep.search.objectives)}, validation error at most "
        f"{sweep.search.guard:g} above cross-entropy's"
        + "".join(f", {limit}" for limit in rule_of(sweep).constraints),
        **(
            {"adapts on": f"{share:.0%} of the validation split, not used for evaluation"}
            if (share := sweep.training.adapt_share)
            else {}
        ),
        **({"learns from": ", ".join(earlier)} if (earlier := sweep.search.warm_start) else {}),
        **({"starts from": _starting_point(sweep)} if sweep.search.is_guided else {}),
        "each trial uses": _resources(sweep.scaling),
        **(_recipe_facts(sweep) if sweep.trainable is None else {}),
        "concurrent": "as many trials as fit" + (f", at most {most}" if most else ""),
    }


def _stages(sweep: SweepFile, trials: int) -> str:
    search, space = sweep.search, SearchSpace(sweep)
    if search.is_guided:
        found = (
            f"at most {trials}: the baseline, then guided until no other is expected to be better"
        )
        known = " ({} to {} on recorded datasets)".format(*_GUIDED_TRIALS)
        return found + known * (trials > max(_GUIDED_TRIALS))
    first = len(space.initial_settings(ANY_NUMBER_OF_CLASSES))
    fixed = min(first, trials)
    found = f"{trials}: the baseline, {fixed - 1} published, {trials - fixed} searched"
    if trials < search.trials and space.sizes:
        found += f"; there are no other settings, so search.trials = {search.trials} is not met"
    elif first > trials:
        found += f"; {counted(first - trials, 'published setting')} left out"
    if search.sampler == GUIDED:
        found += "; by tpe, because guided needs one objective that a temperature affects, not "
        found += search.objective
    return found


def _resources(scaling: ScalingSection) -> str:
    cpus = scaling.cpus_per_worker * scaling.num_workers
    found = counted(cpus, "CPU")
    if scaling.gpus_per_worker == "auto" and scaling.num_workers > 1:
        found += ", and where the cluster has GPUs one for each worker"
    elif scaling.gpus_per_worker == "auto":
        found += ", and where the cluster has GPUs one, or if it is small a share of one"
    elif scaling.gpus:
        found += f", {scaling.gpus * scaling.num_workers:g} GPUs"
    return found


def _finalists(sweep: SweepFile) -> str:
    counts = SeedCounts.of(sweep)
    finalists = counted(counts.finalists, "setting")
    if sweep.selection.per_loss:
        finalists = f"the best setting of each loss, at most {counts.finalists},"
    baseline = f"the baseline with {counted(counts.baseline, 'fresh seed')}"
    if not counts.looks:
        return baseline
    return f"{finalists} with {counted(counts.first, 'fresh seed')} each and {baseline}"


def _further(sweep: SweepFile) -> str:
    counts = SeedCounts.of(sweep)
    text = ""
    if len(counts.stages) > len(counts.looks):
        text = f"; then the best of them has {counts.looks[0]}"
    if len(counts.looks) > 1:
        *more, last = counts.looks[1:]
        text += (
            ", and it and the baseline have "
            f"{', '.join(map(str, more))} or {last} until the verdict is decided"
        )
    return text


def _epoch_facts(sweep: SweepFile) -> dict[str, str]:
    epochs, rungs = sweep.training.epochs, ", ".join(map(str, make_stopper(sweep).rungs))
    if sweep.trainable is None and "epochs" not in sweep.training.model_fields_set:
        return {"epochs": "the default for the model and the data, which are not loaded"}
    patience = sweep.training.patience
    return {
        "epochs": f"at most {epochs} a trial"
        + (
            "; all end where the validation NLL of a first run of the baseline, a mean over "
            f"{patience} epochs, is lowest"
            if patience is not None
            else ""
        )
        + (f"; poor trials stop at {rungs} by {sweep.scheduler.metric}" if rungs else ""),
        "total": f"at most {most_epochs(sweep):,} epochs",
    }


def _starting_point(sweep: SweepFile) -> str:
    names = sweep.search.learn_from
    if names == ("none",):
        return "this sweep's trials alone"
    if names != ("all",):
        return f"the trials of {', '.join(names)}"
    shipped = counted(len({each.source for each in recorded_settings()}), "recorded dataset")
    return f"the settings of {shipped}, and finished sweeps in the storage"


def _budget_facts(sweep: SweepFile, trials: int) -> dict[str, str]:
    search = sweep.search
    facts = []
    if search.max_epochs is not None:
        whole = max(1, (search.max_epochs - pilot_epochs(sweep)) // sweep.training.epochs)
        counts = SeedCounts.of(sweep)
        finals = [counts.first_trials(n) for n in range(trials + 1)]
        searched = max((n for n in range(1, trials + 1) if n + finals[n] <= whole), default=1)
        again = finals[searched] if searched + finals[searched] <= whole else 0
        more = ", more where poor trials stop" if make_stopper(sweep).rungs else ""
        facts.append(
            f"{search.max_epochs:,} epochs: {searched} of {trials} trials to their end and {again} "
            f"of finalists{more if searched < trials else ''}"
        )
    for most, unit in ((search.max_hours, "hours"), (search.max_gpu_hours, "GPU hours")):
        if most is not None:
            facts.append(f"{most:g} {unit}: as many trials as leave time for the finalists")
    if search.stop_at_noise:
        facts.append("until a trial cannot be distinguished from a perfectly calibrated model")
    return {"budget": "; ".join(facts)} if facts else {}


def _trained_fact(sweep: SweepFile) -> dict[str, str]:
    if sweep.trainable is not None:
        return {"trained by": sweep.trainable.name + sweep.trainable.options_in_words}
    default = sweep.model.name == DEFAULT_MODEL
    return {"model": "the default one of such data" if default else sweep.model.name}


def _precision(training: TrainingSection) -> str:
    return {
        "auto": "bfloat16 where that is faster, else float32 (decided at the start)",
        "bfloat16": "bfloat16; losses, statistics and evaluation in float32",
        "float32": "float32",
    }[training.precision]


def _recipe_facts(sweep: SweepFile) -> dict[str, str]:
    training = sweep.training
    if not is_complete(training):
        return {
            "training": "what is left out depends on the model and the data, which are not loaded",
            "precision": _precision(training),
        }
    optimizer = {"sgd": f"SGD with momentum {training.momentum:g}", "adam": "Adam"}
    schedule = {"constant": "constant", "step": "in steps", "cosine": "by a cosine to 0"}
    warmup = f" after {training.warmup_epochs:g} epochs of warm-up" * (training.warmup_epochs > 0)
    return {
        "training": f"{optimizer.get(training.optimizer, 'AdamW')}, learning rate {training.lr:g} "
        f"({schedule[training.schedule]}{warmup}), weight decay {training.weight_decay:g}, "
        f"batches of {training.batch_size:,}",
        "precision": _precision(training),
    }


def is_complete(training: TrainingSection) -> bool:
    """Whether all defaults are filled in, which requires the data."""
    return training.model_fields_set == set(TrainingSection.model_fields)


def _encoder_facts(sweep: SweepFile) -> dict[str, str]:
    if sweep.encoder is None:
        return {}
    loss, epochs = sweep.encoder.loss, sweep.encoder.training.epochs
    given = format_hyperparameters(loss.hyperparameters) if loss.hyperparameters else ""
    name = " ".join(part for part in (loss.name, given) if part)
    seeds = len(sweep.seeds)
    return {
        "encoder": f"{name}, {counted(epochs, 'epoch')}, trained once for each of "
        f"{counted(seeds, 'seed')} and frozen; the trials train a linear head on its features"
    }


def describe_range(distribution: BaseDistribution) -> str:
    """``0 … 10``, ``0.01 … 1 (log)``, or the choices."""
    if isinstance(distribution, CategoricalDistribution):
        return ", ".join(map(str, distribution.choices))
    low, high = distribution.low, distribution.high  # type: ignore[attr-defined]
    log = " (log)" if distribution.log else ""  # type: ignore[attr-defined]
    return f"{format_value(low)} … {format_value(high)}{log}"
