"""Configuration of training: plain data without torch and Ray, which any module may import."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from trainables.contract.messages import TrialConfig
from trainables.files.storage import digest_of
from trainables.plugins.arguments import Range

OptimizerName = Literal["sgd", "adam", "adamw"]
ScheduleName = Literal["constant", "step", "cosine", "plateau"]
KeptEpoch = Literal[
    "last",
    "nll",
    "refinement",
    "val_ece",
    "val_adaptive_ece",
    "val_nll",
    "val_brier",
    "val_error",
]
Precision = Literal["auto", "float32", "bfloat16"]
Criterion = Literal["nll", "nll_unpenalised", "ece_grid"]
ScalingMethod = Literal["auto", "none", "temperature", "vector", "matrix", "beta"]
AugmentationName = Literal["none", "crop", "crop_flip", "imagenet", "simaugment"]
LARGEST: Final = 1e6
"""Largest allowed number in a recipe or range; larger ones make no sense, and some overflow."""
Epochs = Annotated[int, Range(0, 100_000, open_low=True)]
Fraction = Annotated[float, Range(0, 1, open_low=True, open_high=True)]
Share = Annotated[float, Range(0, 1, open_high=True)]
Positive = Annotated[float, Range(0, LARGEST, open_low=True)]
ClassWeights = Literal["balanced"] | tuple[Positive, ...]
ARCHIVE = "own.tar"  # the folder of a custom loop, in a storage that is not a local path
_OWN = "own-"


OF_PILOT: Final = ("patience", "longest")
"""Keys of ``training`` in a sweep file that no trial reads; see :mod:`sweeps.search.pilot`."""


@dataclass(frozen=True)
class TrainingConfig:
    """The `training` section of a sweep file; the defaults are the papers' recipe for CIFAR.

    Attributes:
        epochs: Passes over the training split.
        batch_size: Samples per step over all workers of a trial. An epoch has
            ``ceil(n / batch_size)`` batches of nearly equal size, so none is tiny.
        optimizer: ``sgd`` (with ``momentum`` and ``nesterov``), ``adam`` or ``adamw``.
        lr: Initial learning rate (after warm-up).
        momentum: Momentum of SGD.
        nesterov: Whether SGD uses Nesterov momentum.
        weight_decay: L2 penalty (decoupled for ``adamw``).
        schedule: ``constant``, ``step`` (times ``lr_decay`` at each of ``milestones``), ``cosine``
            (to zero at the last step) or ``plateau`` (times ``lr_decay`` when the validation NLL no
            longer falls, like ``ReduceLROnPlateau`` of PyTorch).
        milestones: Fractions of ``epochs`` at which ``step`` decays.
        lr_decay: Factor of each decay.
        plateau_patience: ``plateau`` decays if the NLL has not fallen in more epochs than these.
        warmup_epochs: Epochs over which the learning rate rises linearly from zero.
        clip_grad_norm: Largest gradient norm, or None for no clipping.
        augmentation: ``none``, ``crop``, ``crop_flip``, ``imagenet`` (random-resized crop, flip,
            colour jitter, erasing) or ``simaugment`` (the same with stronger colours and grey
            images, without erasing: the views of contrastive losses); None is the dataset's
            default.
        precision: ``auto`` is bfloat16 autocast on GPUs with native support, and float32 elsewhere.
            A sweep resolves it at its start; it also uses bfloat16 on CPUs with native support if
            the model is large enough. Losses, batch statistics and evaluation always use float32.
        cuda_graphs: Whether a GPU replays training steps as CUDA graphs, if nothing prevents it.
            Set it to false for a model or loss whose Python code must run at each step.
        eval_batch_size: Samples per step of evaluation; on a CPU at most 128, which fit its cache.
            More need much memory for the exact convolutions of a GPU.
        adapt_share: Share of the validation split that is reserved for adaptation (of losses that
            adapt after each epoch, and of the temperature). With 0, the whole split is used for
            both adaptation and evaluation.
        sync_batch_norm: Whether the workers of a trial share batch statistics.
        class_weights: Weight of each class in the gradient: a list, or ``balanced`` for weights
            inversely proportional to the class frequencies; None for equal weights. For losses that
            are means over samples.
        keep: The epoch whose network is the trial's result: the last, or the one with the lowest
            value of a metric. ``nll`` and ``refinement`` (the NLL after the epoch's temperature)
            leave the last epoch only if another is better by more than one standard error, and if
            the last has at least 50 validation errors. That value is then optimistic, because the
            validation split selects the epoch. A trial that is stopped early has the result of the
            epoch at which it stops.
        keep_after: Fraction of ``epochs`` after which ``keep`` may select.
    """

    epochs: Epochs = 200
    batch_size: Annotated[int, Range(2, 1_000_000)] = 128
    optimizer: OptimizerName = "sgd"
    lr: Positive = 0.1
    momentum: Share = 0.9
    nesterov: bool = False
    weight_decay: Annotated[float, Range(0, LARGEST)] = 5e-4
    schedule: ScheduleName = "cosine"
    milestones: tuple[Fraction, ...] = (0.43, 0.71)
    lr_decay: Fraction = 0.1
    plateau_patience: Epochs = 10
    warmup_epochs: Annotated[float, Range(0, 100_000)] = 0.0
    clip_grad_norm: Positive | None = None
    augmentation: AugmentationName | None = None
    precision: Precision = "auto"
    cuda_graphs: bool = True
    eval_batch_size: Annotated[int, Range(0, 1_000_000, open_low=True)] = 256
    adapt_share: Share = 0.0
    sync_batch_norm: bool = False
    class_weights: ClassWeights | None = None
    keep: KeptEpoch = "last"
    keep_after: Share = 0.0


@dataclass(frozen=True)
class HeadConfig:
    """The second of two stages: the head on the encoder's features.

    Attributes:
        kind: ``linear``, or ``mlp`` with one hidden layer.
        width: Width of the hidden layer.
        dropout: Probability of dropping an input of the last layer.
    """

    kind: Literal["linear", "mlp"] = "linear"
    width: Annotated[int, Range(1, 1_000_000)] = 256
    dropout: Annotated[float, Range(0, 1, open_high=True)] = 0.0


@dataclass(frozen=True)
class EncoderSetup:
    """The first of two stages: an encoder that is trained once per seed, or stays as it is.

    Attributes:
        training: Training configuration of the encoder.
        uri: Folder (path or URI) of the encoders, with one subfolder per seed.
        frozen: Whether it is not trained. All seeds then share the encoder of seed 0, and heads
            standardise its features; else they scale them to unit length, like RefCal.
        checkpoint: File of its weights, or None.
        head: The heads on its features.
    """

    training: TrainingConfig
    uri: str
    frozen: bool = False
    checkpoint: str | None = None
    head: HeadConfig = HeadConfig()

    def seed_of(self, seed: int) -> int:
        """The seed of the encoder that a head with this seed uses."""
        return 0 if self.frozen else seed


@dataclass(frozen=True)
class ScalingWay:
    """How the validation split calibrates a trained network: ``scaling_method``."""

    name: ScalingMethod = "auto"
    criterion: Criterion = "nll"


USUAL_SCALING: Final = ScalingWay()


@dataclass(frozen=True)
class TrialSetup:
    """Configuration that all trials of a sweep share, besides the data.

    Attributes:
        model: Name of the model, or of a custom training loop (``own_loop``), with its options.
        trials_uri: Folder (path or URI) with one subfolder per trial.
        outcome_epochs: Epochs after which a trial may end: the rungs of the scheduler and the last
            epoch. Before it reports them, a trial writes its predictions; if it cannot be stopped,
            only after the last.
        deciding_metrics: The objectives and the metrics with a limit, such as ``val_ece``. The
            outcome of a searched trial has them besides those of every epoch; all metrics take
            long, and only finalists compute them.
        own_metrics: Paths of custom metrics to include in outcomes.
        threads: Number of CPU threads per worker.
        user_paths: Folders to add to ``sys.path`` for custom losses and models.
        encoder: If given, trials train a linear head on the features of this frozen encoder.
        marker: If given, the folder of the sweep and the content of its file ``sweep_id``, with
            which a worker verifies that it accesses the sweep's storage, not a local folder at the
            same path.
        gpu_share: GPUs, or fraction of a GPU, per worker: ``scaling.gpus_per_worker``.
        scaling: How a trained network is scaled: ``scaling_method``.
        training_temperature: Whether finalists report ``training_temperature``.
    """

    model: str
    model_options: dict[str, object]
    training: TrainingConfig
    trials_uri: str
    outcome_epochs: tuple[int, ...]
    deciding_metrics: tuple[str, ...] = ()
    own_metrics: tuple[str, ...] = ()
    threads: int = 1
    user_paths: tuple[str, ...] = ()
    encoder: EncoderSetup | None = None
    marker: tuple[str, str] | None = None
    own_loop: bool = False
    gpu_share: float = 1.0
    scaling: ScalingWay = USUAL_SCALING
    training_temperature: bool = False


def check_shares(num_samples: int, batch_size: int, num_workers: int) -> None:
    """Raises ``ValueError`` if the smallest batch has fewer samples than there are workers."""
    smallest = num_samples // math.ceil(num_samples / batch_size)
    if smallest < num_workers:
        raise ValueError(
            f"batch_size = {batch_size} cuts {num_samples} training samples into batches of down "
            f"to {smallest}, fewer than num_workers = {num_workers}; each worker needs a sample "
            f"of each batch: allowed: a batch_size of {2 * num_workers} or more"
            + ("" if num_samples >= num_workers else ", and as many samples as workers")
        )


def trial_setting(model: str, model_options: Mapping[str, object], config: TrialConfig) -> str:
    """The setting that a trial's checkpoint must match, as JSON."""
    parts = {
        "model": model,
        "model_options": dict(model_options),
        "stage": "encoder" if config.role == "encoder" else "classifier",
        **vars(config.setting),
        "seed": config.seed,
    }
    return json.dumps(parts, sort_keys=True, default=str)


def own_folder(setting: str) -> str:
    """Name of the folder of a custom loop in a trial's checkpoints."""
    return _OWN + digest_of(setting.encode())


def is_own_folder(name: str) -> bool:
    """Whether the name is one that :func:`own_folder` returns."""
    return name.startswith(_OWN)


def trial_folder(number: int) -> str:
    """Name of a trial's folder: at least five digits, so that names sort like numbers."""
    return f"{number:05d}"
