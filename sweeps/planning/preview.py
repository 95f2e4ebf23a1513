"""``calsweep check``: the plan of a sweep file, before anything is started."""

from __future__ import annotations

import math

from optuna.distributions import CategoricalDistribution

from search_spaces import Distribution
from sweeps.messages.formatting import counted, format_hyperparameters, format_value
from sweeps.search.plan import ANY_NUMBER_OF_CLASSES, Plan
from sweeps.search.recorded import recorded_settings
from sweeps.search.seed_counts import SeedCounts
from sweeps.search.stopping import make_stopper
from sweeps.sweep_file.sections.resources import ScalingSection
from sweeps.sweep_file.sections.search import GUIDED, SearchSection
from sweeps.sweep_file.sections.training import DEFAULT_MODEL, TrainingSection
from trainables.contract.setting import BASELINE


def plan_facts(plan: Plan) -> dict[str, str]:
    sweep = plan.sweep
    most = sweep.scaling.max_concurrent
    return {
        "sweep": sweep.name,
        "dataset": sweep.dataset.label,
        **_trained_fact(plan),
        **_encoder_facts(plan),
        "trials": "; ".join(filter(None, (_stages(plan), untried(plan)))),
        "finalists": f"at most {plan.again} more: {_finalists(plan)}" if plan.again else "none",
        **_epoch_facts(plan),
        **_budget_facts(plan),
        "selected by": ("the Pareto front of " if plan.rule.others else "")
        + f"{' and '.join(sweep.search.objectives)}, validation error at most "
        f"{sweep.search.guard:g} above cross-entropy's"
        + "".join(f", {limit}" for limit in plan.rule.constraints),
        **(
            {"adapts on": f"{share:.0%} of the validation split, not used for evaluation"}
            if (share := sweep.training.adapt_share)
            else {}
        ),
        **_earlier(plan.search),
        "each trial uses": _resources(sweep.scaling),
        **(_recipe_facts(plan) if sweep.trainable is None else {}),
        "concurrent": "as many trials as fit" + (f", at most {most}" if most else ""),
    }


def untried(plan: Plan) -> str:
    """What ``search.trials`` is too small for; empty if each loss can have a trial."""
    losses, others = set(plan.space.branches) - {BASELINE.loss}, plan.settings - 1
    if others >= len(losses):
        return ""
    tried = f"at most {others} of the {len(losses)} losses" if others else "none of the losses"
    left_out = ""
    if others and not plan.search.is_guided:
        first = plan.space.initial_settings(ANY_NUMBER_OF_CLASSES)[: plan.settings]
        rest = losses - {setting.loss for setting in first}
        left_out = f" (not {', '.join(sorted(rest))})"
    return (
        f"with search.trials = {plan.search.trials} {tried} can be tried{left_out}; "
        f"{len(losses) + 1} are enough to try each loss"
    )


def _stages(plan: Plan) -> str:
    search, space, trials = plan.search, plan.space, plan.settings
    if trials == 1:
        return "1: the baseline"
    if search.is_guided:
        return (
            f"at most {trials}: the baseline, then guided until no other is expected to be better"
        )
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
    found = counted(scaling.cpus_per_worker * scaling.num_workers, "CPU")
    if scaling.gpus_per_worker == "auto" and scaling.num_workers > 1:
        found += ", and where the cluster has GPUs one for each worker"
    elif scaling.gpus_per_worker == "auto":
        found += ", and where the cluster has GPUs one, or if it is small a share of one"
    elif scaling.gpus:
        found += f", {scaling.gpus * scaling.num_workers:g} GPUs"
    return found


def _finalists(plan: Plan) -> str:
    counts, most = plan.counts, min(plan.counts.finalists, plan.settings - 1)
    baseline = f"the baseline with {counted(counts.baseline, 'fresh seed')}"
    if most < 1:
        return baseline
    finalists, each, further = counted(most, "setting"), " each", _further(counts)
    first = counts.first
    if plan.sweep.selection.per_loss:
        finalists = f"the best setting of each loss, at most {most},"
    elif most == 1:
        first, each, further = counts.looks[0], "", _more_looks(counts)
    return f"{finalists} with {counted(first, 'fresh seed')}{each} and {baseline}{further}"


def _further(counts: SeedCounts) -> str:
    best = f"; then the best of them has {counts.looks[0]}"
    return best * (len(counts.stages) > len(counts.looks)) + _more_looks(counts)


def _more_looks(counts: SeedCounts) -> str:
    if len(counts.looks) == 1:
        return ""
    *more, last = counts.looks[1:]
    seeds = f"{', '.join(map(str, more))} or {last}"
    return f", and it and the baseline have {seeds} until the verdict is decided"


def _epoch_facts(plan: Plan) -> dict[str, str]:
    sweep, rungs = plan.sweep, ", ".join(map(str, make_stopper(plan).rungs))
    if sweep.trainable is None and "epochs" not in sweep.training.model_fields_set:
        return {"epochs": "the default for the model and the data, which are not loaded"}
    patience, longest = sweep.training.patience, sweep.training.longest
    return {
        "epochs": f"at most {plan.epochs} a trial"
        + (
            "; all end where the validation NLL of a first run of the baseline, a mean over "
            f"{patience} epochs, is lowest"
            if patience is not None
            else ""
        )
        + (f", or after up to {longest} if it still falls at {plan.epochs}" if longest else "")
        + (f"; poor trials stop at {rungs} by {sweep.scheduler.metric}" if rungs else ""),
        "total": f"at most {plan.most_epochs:,} epochs",
    }


def _earlier(search: SearchSection) -> dict[str, str]:
    if search.named:
        return {"learns from": ", ".join(search.named)}
    if not search.is_guided:
        return {}
    if search.learn_from == ("none",):
        return {"starts from": "this sweep's trials alone"}
    shipped = counted(len({each.source for each in recorded_settings()}), "recorded dataset")
    return {"starts from": f"the settings of {shipped}, and finished sweeps in the storage"}


def _budget_facts(plan: Plan) -> dict[str, str]:
    search, trials = plan.search, plan.settings
    facts = []
    if search.max_epochs is not None:
        whole = max(1, (search.max_epochs - plan.pilot_epochs) // plan.epochs)
        finals = [plan.counts.first_trials(n) for n in range(trials + 1)]
        searched = max((n for n in range(1, trials + 1) if n + finals[n] <= whole), default=1)
        again = finals[searched] if searched + finals[searched] <= whole else 0
        more = ", more where poor trials stop" if make_stopper(plan).rungs else ""
        facts.append(
            f"{search.max_epochs:,} epochs: {searched} of {trials} trials to their end and {again} "
            f"of finalists{more if searched < trials else ''}"
        )
    for most, unit in ((search.max_hours, "hours"), (search.max_gpu_hours, "GPU hours")):
        if most is not None:
            facts.append(f"{most:g} {unit}: as many trials as leave time for the finalists")
    return {"budget": "; ".join(facts)} if facts else {}


def _trained_fact(plan: Plan) -> dict[str, str]:
    sweep = plan.sweep
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


def _recipe_facts(plan: Plan) -> dict[str, str]:
    training = plan.sweep.training
    if not plan.is_complete:
        return {
            "training": "what is left out depends on the model and the data, which are not loaded",
            "precision": _precision(training),
        }
    optimizer = {"sgd": f"SGD with momentum {training.momentum:g}", "adam": "Adam"}
    schedule = {
        "constant": "constant",
        "step": "in steps",
        "cosine": "by a cosine to 0",
        "plateau": f"times {training.lr_decay:g} after more than "
        f"{counted(training.plateau_patience, 'epoch')} without a lower validation NLL",
    }
    warmup = f" after {training.warmup_epochs:g} epochs of warm-up" * (training.warmup_epochs > 0)
    return {
        "training": f"{optimizer.get(training.optimizer, 'AdamW')}, learning rate {training.lr:g} "
        f"({schedule[training.schedule]}{warmup}), weight decay {training.weight_decay:g}, "
        f"batches of {training.batch_size:,}",
        **_kept_fact(training),
        "precision": _precision(training),
    }


def _kept_fact(training: TrainingSection) -> dict[str, str]:
    if training.keep == "last":
        return {}
    after = math.floor(training.keep_after * training.epochs)
    since = f" after epoch {after}" if after else ""
    return {"network": f"of the epoch with the lowest {training.keep}{since}"}


def _encoder_facts(plan: Plan) -> dict[str, str]:
    if (encoder := plan.sweep.encoder) is None:
        return {}
    head = f"{'an' if encoder.head.kind == 'mlp' else 'a'} {encoder.head.kind} head"
    if encoder.frozen:
        weights = f" with the weights of {encoder.checkpoint}" if encoder.checkpoint else ""
        return {
            "encoder": f"the network{weights}, not trained; its features are computed once, and "
            f"the trials train {head} on them"
        }
    loss, epochs = encoder.loss, encoder.training.epochs
    given = format_hyperparameters(loss.hyperparameters) if loss.hyperparameters else ""
    name = " ".join(part for part in (loss.name, given) if part)
    seeds = len(plan.seeds)
    return {
        "encoder": f"{name}, {counted(epochs, 'epoch')}, trained once for each of "
        f"{counted(seeds, 'seed')} and frozen; the trials train {head} on its features"
    }


def describe_range(distribution: Distribution) -> str:
    """``0 … 10``, ``0.01 … 1 (log)``, or the choices."""
    if isinstance(distribution, CategoricalDistribution):
        return ", ".join(map(str, distribution.choices))
    log = " (log)" if distribution.log else ""
    return f"{format_value(distribution.low)} … {format_value(distribution.high)}{log}"
