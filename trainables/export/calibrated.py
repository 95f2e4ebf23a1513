"""A trained classifier with its preprocessing and scaling."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor, nn

from trainables.contract.config import EncoderSetup, trial_setting
from trainables.contract.messages import TrialConfig
from trainables.data.core.base import Dataset
from trainables.data.core.samples import Samples
from trainables.data.core.tasks import OneClass, Task
from trainables.data.kinds.arrays import Images
from trainables.data.kinds.encode import (
    check_some,
    image_rows,
    table_columns,
    texts_of,
    unmasked,
)
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import Columns, TableRows
from trainables.data.kinds.tokens import Tokens, WeightedWords
from trainables.data.readers.arrays import as_inputs
from trainables.files.checkpoints import load_checkpoint
from trainables.files.storage import Folder
from trainables.models import model_for, without_weights
from trainables.plugins.arguments import few
from trainables.posthoc.scaling import Scaling
from trainables.trials import two_stage


class _Calibrated(nn.Module):
    """Encodes raw samples, and predicts them in batches."""

    samples: Samples
    scaling: Scaling

    def encode(self, raw: Any) -> npt.NDArray[Any]:
        """Encodes raw samples as rows (N, ...) for ``forward``.

        Args:
            raw: Arrays (N, ...) as in the data, images also as (N, H, W) or (N, H, W, C); texts; or
                a data frame with the columns of the data.

        Raises:
            TypeError: The kind of sample is wrong.
            ValueError: The shape is wrong, a column is missing, a value cannot be read, or there
                are no samples.
        """
        samples = self.samples
        if isinstance(samples, TableRows):
            rows = samples.encode(_columns(raw, samples))
        elif isinstance(samples, Tokens | Subwords | WeightedWords):
            rows = samples.encode(np.array(texts_of(raw), dtype=object))
        elif isinstance(samples, Images):
            rows = image_rows(vars(samples), raw)
        else:
            rows = as_inputs(unmasked(raw), "samples").astype(np.float32, copy=False)
        check_some(rows)
        samples.check(rows)
        return np.ascontiguousarray(rows)

    @torch.no_grad()
    def predict_proba(self, raw: Any, batch_size: int | None = None) -> npt.NDArray[np.float32]:
        """Calibrated probabilities of raw samples as an array; see :meth:`encode`.

        ``batch_size`` is 1024 by default, or 8 for segmentation.
        """
        rows, device = self.encode(raw), self.scaling.temperature.device
        batch_size = batch_size or (8 if self.samples.each_pixel else 1024)
        self.eval()
        pieces = [
            self(torch.tensor(rows[start : start + batch_size], device=device)).cpu().numpy()
            for start in range(0, len(rows), batch_size)
        ]
        return np.concatenate(pieces)


class CalibratedClassifier(_Calibrated):
    """A module that computes calibrated probabilities for samples as stored in the data.

    It contains preprocessing, network and scaling, and is in evaluation mode.

    Args:
        network: The trained classifier.
        samples: The kind of sample, with the statistics of the training split.
        scaling: Map from the network's logits to calibrated ones, or a temperature that divides
            them.
        classes: Names in the order of the probabilities, of classes or of labels.
        task: The task; by default one class per sample.
    """

    def __init__(
        self,
        network: nn.Module,
        samples: Samples,
        scaling: Scaling | float,
        classes: tuple[str, ...],
        task: Task | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.samples = samples
        self.classes = classes
        self.task = task or OneClass()
        self.scaling = _in_single_precision(scaling)
        self.eval()

    def logits(self, rows: Tensor) -> Tensor:
        """Calibrated logits (N, K, ...), float32, of rows (N, ...) from :meth:`encode`."""
        values: Tensor = self.network(self.samples.normalise(rows))
        return self.task.scaled(values, self.scaling)

    def forward(self, rows: Tensor) -> Tensor:
        """Calibrated probabilities.

        Args:
            rows: (N, ...), on the module's device: images as uint8 (N, C, H, W), other arrays as
                float32 with the values in the data, texts and tables as returned by :meth:`encode`.

        Returns:
            (N, K), float32, each row summing to 1; (N, L), the probability of each label, for
                multi-label data; (N, K, H, W) for segmentation.
        """
        return self.task.probabilities(self.logits(rows))


class CalibratedEnsemble(_Calibrated):
    """The mean of the calibrated probabilities of several classifiers, rescaled.

    Args:
        members: The classifiers, with their temperatures, for the same samples and classes.
        scaling: Map of the logarithm of the mean, or a temperature that divides it.
    """

    def __init__(self, members: Sequence[CalibratedClassifier], scaling: Scaling | float) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.samples, self.classes = members[0].samples, members[0].classes
        self.scaling = _in_single_precision(scaling)
        self.eval()

    def forward(self, rows: Tensor) -> Tensor:
        """Calibrated probabilities (N, K), float32; see :meth:`CalibratedClassifier.forward`."""
        total = sum(member(rows) for member in self.members)
        tiny = torch.finfo(torch.float32).tiny
        mean = torch.as_tensor(total / len(self.members)).clamp(min=tiny)
        return torch.softmax(self.scaling(mean.log()), dim=1)


def _in_single_precision(scaling: Scaling | float) -> Scaling:
    """A copy; some devices have no double precision."""
    if not isinstance(scaling, Scaling):
        return Scaling("temperature", scaling).float()
    return scaling.after(scaling.inverse).float()


def load_calibrated(
    dataset: Dataset,
    model: tuple[str, dict[str, object]],
    config: TrialConfig,
    folder: Folder,
    scaling: Scaling,
    encoder: EncoderSetup | None = None,
) -> CalibratedClassifier:
    """The classifier that a trial trained on this dataset.

    ``model`` is its name and options; ``encoder`` is given if the trial trained a head on
    one. Raises ``FileNotFoundError`` without checkpoint or encoder, ``ValueError``
    if the encoder is damaged.
    """
    name, options = model
    setting = trial_setting(name, options, config)
    if (state := load_checkpoint(folder / "checkpoints", setting)) is None:
        raise FileNotFoundError(_no_checkpoint(folder / "checkpoints"))
    with torch.random.fork_rng(devices=[]):
        # The weights are in the checkpoint.
        network = model_for(dataset, name, without_weights(name, options))
    weights = state["trainer"]["model"]
    if encoder is None:
        network.load_state_dict(weights)
    else:
        of_seed = two_stage.encoder_folder(encoder.uri, encoder.seed_of(config.seed))
        network.encoder.load_state_dict(two_stage.load_encoder(of_seed))
        network = two_stage.whole(network, encoder, weights)
    names = dataset.task.names or dataset.classes
    return CalibratedClassifier(network, dataset.samples, scaling, names, dataset.task)


def _no_checkpoint(folder: Folder) -> str:
    if not (found := folder.names()):
        return f"there is no checkpoint in {folder.uri}; a deleted one cannot be restored"
    return (
        f"the checkpoints in {folder.uri} are damaged, or of another setting ({few(found)}); "
        "restore them from a backup"
    )


def _columns(raw: Any, samples: TableRows) -> Columns:
    columns = Columns(pa.table(table_columns(vars(samples), raw)))
    for note in samples.unseen(columns):
        warnings.warn(note, stacklevel=4)
    return columns
