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
from trainables.contract.config import LARGEST, OF_PILOT, Epochs, HeadConfig, TrainingConfig

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
            ``export`` and ``result.model()`` need it. If the loop reads its own data, it
            returns the model and the inputs of the first test samples.
    """

    load: str | None = None


class TrainingSection(Section, TrainingConfig, frozen=True):
    """``training``: the training recipe of all trials.

    Defaults depend on the model and the size of the data; ``calsweep check`` shows them.

    Attributes:
        patience: Given, the baseline is trained once before the sweep, for at most ``epochs``,
            until the mean of its validation NLL over this many epochs has not improved for as many.
            All trials then train until the middle of the epochs with the lowest mean.
        longest: Given with ``patience``, and if the NLL still improves after ``epochs``, whole
            trainings with twice as many follow, up to this number, while each is better than the
            last by more than one standard error.
    """

    patience: Epochs | None = None
    longest: Epochs | None = None

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
    def _what_was_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {key: value for key, value in dump(self).items() if key in self.model_fields_set}

    def completed(self, usual: Mapping[str, Any]) -> TrainingSection:
        """A copy with every key: missing ones from ``usual``, or else the defaults."""
        whole = {**{key: getattr(self, key) for key in type(self).model_fields}, **usual}
        given = {key: getattr(self, key) for key in self.model_fields_set}
        return TrainingSection(**{**whole, **given})

    def config(self) -> TrainingConfig:
        """The recipe as the plain object that workers read."""
        return TrainingConfig(**{k: v for k, v in self.model_dump().items() if k not in OF_PILOT})


class HeadSection(Section, HeadConfig, frozen=True):
    """``encoder.head``: what the trials train on the features of an encoder.

    Attributes:
        kind: ``linear``, or ``mlp`` with one hidden layer.
        width: Width of the hidden layer.
        dropout: Probability of dropping an input of the last layer.
    """

    @model_validator(mode="before")
    @classmethod
    def _kind_alone(cls, value: Any) -> Any:
        """``mlp`` is short for ``{kind: mlp}``."""
        return {"kind": value} if isinstance(value, str) else value

    def config(self) -> HeadConfig:
        """The head as the plain object that workers read."""
        return HeadConfig(**self.model_dump())


class EncoderSection(Section, frozen=True):
    """``encoder``: the first of two stages, a network whose features the trials classify.

    One encoder per seed is trained (RefCal), or the network stays as it is (``frozen``). Its
    features are computed once and stored. The trials then train a head on them with the recipe of
    ``training``. ``model: {frozen: true, head: mlp}`` is short for these keys.

    Attributes:
        loss: Loss of the encoder.
        training: Recipe of the encoder; ``epochs: 0`` is the same as ``frozen``.
        frozen: Whether the network is not trained: published weights (``pretrained`` of the model),
            or those of ``checkpoint``.
        checkpoint: File of the network's weights, ``.safetensors`` or a state dict of PyTorch.
        head: The heads that the trials train.
    """

    loss: LossSection = LossSection(name="supcon")
    training: TrainingSection = TrainingSection()
    frozen: bool = False
    checkpoint: str | None = None
    head: HeadSection = HeadSection()

    @model_validator(mode="before")
    @classmethod
    def _no_epochs_are_frozen(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        training, frozen = value.get("training"), value.get("frozen", True)
        if frozen is True and isinstance(training, dict) and training.get("epochs") == 0:
            training = {key: each for key, each in training.items() if key != "epochs"}
            value = {**value, "training": training, "frozen": True}
        if value.get("frozen") is True and not value.get("training"):
            plain = {"loss": {"name": "cross_entropy"}, "training": {"epochs": 1}}
            value = {**plain, **value, "training": plain["training"]}
        return value

    @model_validator(mode="after")
    def _a_frozen_one_is_not_trained(self) -> EncoderSection:
        if self.frozen:
            given = self.training.model_dump()
            if extra := [key for key in given if (key, given[key]) != ("epochs", 1)]:
                raise ValueError(
                    f"training.{extra[0]} is not allowed with frozen = true, as the network is not "
                    "trained; leave encoder.training out"
                )
        elif self.checkpoint is not None:
            raise ValueError(
                f"checkpoint = {self.checkpoint} is not allowed with frozen = false; give frozen: "
                "true, or the weights as an option of the model"
            )
        return self

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
