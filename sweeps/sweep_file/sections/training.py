"""The sections on the model and its training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import (
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from sweeps.sweep_file.sections.fields import NamedSection, Section
from sweeps.sweep_file.sections.losses import LossSection
from sweeps.sweep_file.yaml_text import shortened
from trainables.contract.config import LARGEST, Epochs, TrainingConfig

DEFAULT_MODEL: Final = "default"
"""The name of the default model for the kind of data."""


class ModelSection(NamedSection):
    """``model``: the name of a model (or a dotted path) and its options.

    Attributes:
        name: Name of a model, ``timm/<name>``, or ``package.module:function``. ``default`` is the
            default model for the kind of data.
    """

    name: str = DEFAULT_MODEL


class TrainableSection(NamedSection):
    """``trainable``: a custom training loop and its options.

    The loop builds its own model. From ``training`` it receives the number of epochs.

    Attributes:
        name: The function, as ``package.module:function``.
        load: Another one, which returns the trained model: it gets the trial and the same options.
            ``export`` and ``result.model()`` need it.
    """

    load: str | None = None


class TrainingSection(Section, TrainingConfig):  # type: ignore[misc]  # frozen as well
    """``training``: the training recipe of all trials.

    Defaults depend on the model and the size of the data; ``calsweep check`` shows them.

    Attributes:
        patience: Given, the baseline is trained once before the sweep, for at most ``epochs``,
            until the mean of its validation NLL over this many epochs has not improved for as many.
            All trials then train until the middle of the epochs with the lowest mean.
    """

    patience: Epochs | None = None

    # The inherited defaults are the papers' recipe for CIFAR. Only the given keys are dumped, until
    # completed() gives all of them.

    @field_validator("milestones", mode="before")
    @classmethod
    def _list_of_milestones(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("class_weights", mode="before")
    @classmethod
    def _check_weights(cls, value: Any) -> Any:
        """Give one message, as for scalars."""
        if isinstance(value, list | tuple):
            numbers = [n for n in value if isinstance(n, int | float) and not isinstance(n, bool)]
            if len(numbers) == len(value) > 1 and all(0 < n <= LARGEST for n in numbers):
                return tuple(float(n) for n in numbers)
        elif value is None or value == "balanced":
            return value
        raise ValueError(
            f"{shortened(value)} is not allowed; allowed: balanced, or a list of a positive number "
            f"for each class, up to {LARGEST:,.0f}"
        )

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> TrainingSection:
        if self.nesterov and not self.momentum > 0:
            raise ValueError("nesterov needs a momentum above 0")
        return self

    @model_serializer(mode="wrap")
    def _what_was_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if key in self.model_fields_set}

    def completed(self, usual: Mapping[str, Any]) -> TrainingSection:
        """A copy with every key: missing ones from ``usual``, or else the defaults."""
        whole = {**{key: getattr(self, key) for key in type(self).model_fields}, **usual}
        given = {key: getattr(self, key) for key in self.model_fields_set}
        return TrainingSection(**{**whole, **given})

    def config(self) -> TrainingConfig:
        """The recipe as the plain object that workers read."""
        return TrainingConfig(**{k: v for k, v in self.model_dump().items() if k != "patience"})


class EncoderSection(Section):
    """``encoder``: the first of two training stages (RefCal), with its loss and recipe.

    One encoder per seed is trained and frozen. The trials then train a linear head on its features
    with the recipe of ``training``.

    Attributes:
        loss: Loss of the encoder.
        training: Recipe of the encoder.
    """

    loss: LossSection = LossSection(name="supcon")
    training: TrainingSection = TrainingSection()

    @model_validator(mode="after")
    def _nothing_is_searched_or_validated(self) -> EncoderSection:
        if self.loss.space:
            raise ValueError(
                "loss.space is not allowed, as the encoder is trained once; give "
                "loss.hyperparameters"
            )
        if self.training.schedule == "plateau":
            raise ValueError(
                "training.schedule = plateau is not allowed, as an encoder has no validation NLL; "
                "allowed: constant, step or cosine"
            )
        if self.training.keep != "last":
            raise ValueError(
                f"training.keep = {self.training.keep} is not allowed, as an encoder has no "
                "validation metrics; allowed: last"
            )
        return self
