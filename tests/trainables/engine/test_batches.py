"""Training batches."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainables.contract.config import AugmentationName
from trainables.data import SegmentedImages, Split
from trainables.data.core.tasks import IGNORED
from trainables.engine.batches import TrainingBatches
from trainables.engine.feed import Feed
from trainables.losses import make_loss


@given(kind=st.sampled_from(["none", "crop", "crop_flip"]), seed=st.integers(0, 99))
def test_masks_get_the_same_crops_and_flips_as_images(kind: AugmentationName, seed: int) -> None:
    """The class of each pixel is its index, so it must move with the pixel."""
    numbers = np.arange(1, 241, dtype=np.uint8).reshape(1, 15, 16).repeat(3, 0)
    samples = SegmentedImages((1, 15, 16), (0.0,), (1 / 255,))  # no normalisation
    feed = Feed(Split(numbers[:, None], numbers), torch.device("cpu"))
    batches = TrainingBatches(feed, samples, make_loss("cross_entropy", 241), kind)
    ((read, size),) = batches.read([np.arange(3)])
    inputs, masks, _ = batches.prepare(read, size, torch.Generator().manual_seed(seed))
    found, counted = inputs[:, 0], masks != IGNORED
    torch.testing.assert_close(found[counted], masks[counted].float())
    assert (found[~counted] == 0).all()
    drawn = torch.Generator().manual_seed(seed)
    again = samples.prepare(torch.from_numpy(numbers)[:, None], kind, drawn)
    assert torch.equal(again, inputs)
