"""Models by name, from timm, or by the dotted path of your own builder.

A builder is a function ``(*, input_shape, num_classes, ...options)`` that returns a
:class:`Classifier` with random weights, or any module that ends in a linear layer that outputs the
logits. Instead of ``input_shape``, or in addition, it may have an argument ``samples``, the kind of
sample. The annotations of these arguments say which kinds the model supports. Only arguments in the
signature are passed.

To add a builder, write its file and list it in the table below. An installed package registers
builders with the entry point group ``calsweep.models``. Weights must come from torch's default
generator, so that equal seeds give equal weights.

Functions raise ``ValueError`` if there is no such model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, get_args

from trainables.plugins.components import Catalogue, check_options, options_of, type_hints
from trainables.plugins.extras import require_extra

if TYPE_CHECKING:
    from trainables.data.core.base import Dataset
    from trainables.data.core.samples import Samples
    from trainables.models.base import Classifier

__all__ = [
    "OTHERS",
    "Classifier",
    "available_models",
    "check_model_fits",
    "check_model_options",
    "make_model",
    "model_builder",
    "model_for",
    "model_options",
    "takes_kind",
    "without_weights",
]


def __getattr__(name: str) -> Any:
    if name != "Classifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trainables.models.base import Classifier

    return Classifier


_TIMM = "timm/"
_HUGGING_FACE = "huggingface/"
OTHERS: Final = (_TIMM, _HUGGING_FACE)
"""Prefixes of names of models that are not built in."""

CATALOGUE: Final = Catalogue(
    kind="model",
    group="calsweep.models",
    others=f"{_TIMM}<any name in timm>, {_HUGGING_FACE}<name or folder>",
    ours={
        "airbench_cifar": "trainables.models.airbench_cifar:airbench_cifar",
        "densenet121_cifar": "trainables.models.densenet_cifar:densenet121_cifar",
        "deeplabv3_mobilenet_v3_large": "trainables.models.deeplabv3:deeplabv3_mobilenet_v3_large",
        "deeplabv3_resnet34": "trainables.models.deeplabv3:deeplabv3_resnet34",
        "deeplabv3_resnet50": "trainables.models.deeplabv3:deeplabv3_resnet50",
        "densenet40_cifar": "trainables.models.densenet_cifar:densenet40_cifar",
        "gpool_cnn": "trainables.models.gpool_cnn:gpool_cnn",
        "mlp": "trainables.models.mlp:mlp",
        "preresnet56_cifar": "trainables.models.thin_resnets_cifar:preresnet56_cifar",
        "resnet101_cifar": "trainables.models.resnet_cifar:resnet101_cifar",
        "resnet110_bottleneck_cifar": "trainables.models.resnet_cifar:resnet110_bottleneck_cifar",
        "resnet110_cifar": "trainables.models.thin_resnets_cifar:resnet110_cifar",
        "resnet18_cifar": "trainables.models.resnet_cifar:resnet18_cifar",
        "resnet34_cifar": "trainables.models.resnet_cifar:resnet34_cifar",
        "resnet50_cifar": "trainables.models.resnet_cifar:resnet50_cifar",
        "small_cnn": "trainables.models.small_cnn:small_cnn",
        "small_fcn": "trainables.models.small_fcn:small_fcn",
        "table_mlp": "trainables.models.table_mlp:table_mlp",
        "text_mlp": "trainables.models.text_mlp:text_mlp",
        "wide_resnet26_10_cifar": "trainables.models.thin_resnets_cifar:wide_resnet26_10_cifar",
        "wide_resnet28_10_cifar": "trainables.models.thin_resnets_cifar:wide_resnet28_10_cifar",
    },
)
_GIVEN = ("input_shape", "samples", "num_classes")


available_models: Final = CATALOGUE.names
"""Names that :func:`make_model` accepts, besides those of :data:`OTHERS`, sorted."""


def model_builder(name: str) -> Callable[..., Classifier]:
    """The builder with this name, one of :data:`OTHERS`, or ``package.module:function``."""
    if name.startswith(_TIMM):
        require_extra(f"model {name!r}", "images", "timm")
        from trainables.models.timm_models import timm_builder  # timm takes seconds to import

        return timm_builder(name.removeprefix(_TIMM))
    if name.startswith(_HUGGING_FACE):
        from trainables.models.huggingface import huggingface_builder

        return huggingface_builder(name.removeprefix(_HUGGING_FACE))
    return CATALOGUE.find(name)  # type: ignore[no-any-return]


def model_options(name: str) -> dict[str, object]:
    """Each option of a model with its default, or ``components.REQUIRED``."""
    return options_of(model_builder(name), _GIVEN)


def without_weights(name: str, options: Mapping[str, Any]) -> dict[str, object]:
    """Options that build the model without published weights, if others will replace them."""
    known = "pretrained" in model_options(name)
    return {**options, "pretrained": False} if known else dict(options)


def check_model_options(name: str, *, ten_crop: object = False, **options: Any) -> None:
    """Raises ``ValueError`` if names, types or ranges of options are wrong; builds nothing."""
    if not isinstance(ten_crop, bool):
        raise ValueError(f"model {name!r}: ten_crop={ten_crop!r}: expected true or false")
    builder = model_builder(name)
    check_options(f"model {name!r}", builder, options, _asked(builder))


def check_model_fits(name: str, samples: Samples) -> None:
    """Raises ``ValueError`` unless a model supports these samples, by its annotations."""
    hints = type_hints(model_builder(name))
    kinds: list[Any] = [k for k in _alternatives(hints.get("samples")) if isinstance(k, type)]
    axes = get_args(hints.get("input_shape"))
    if samples.each_pixel:
        fits = any(getattr(kind, "each_pixel", False) for kind in kinds)
    else:
        fits = not kinds or any(isinstance(samples, kind) for kind in kinds)
    if not fits:
        words = [kind.in_words or kind.__name__.lower() for kind in kinds]
        wanted = " or ".join(words) or "samples that are each of a class"
    elif axes and Ellipsis not in axes and len(axes) != len(samples.shape):
        wanted = f"samples of {len(axes)} axes"
    else:
        return
    raise ValueError(
        f"model {name!r} takes {wanted}, while the data are {samples}; "
        f"their default model is {samples.default_model}"
    )


def takes_kind(name: str, kind: type[Samples]) -> bool:
    """Whether the annotations of a model's builder include this kind of sample."""
    return kind in _alternatives(type_hints(model_builder(name)).get("samples"))


def make_model(
    name: str,
    *,
    input_shape: tuple[int, ...],
    num_classes: int,
    samples: Samples | None = None,
    ten_crop: bool = False,
    **options: Any,
) -> Classifier:
    """Builds a model from inputs (N, *input_shape) to logits (N, K), with new random weights.

    Args:
        name: One of :func:`available_models`, ``timm/<name>`` for a model of timm,
            ``huggingface/<name or folder>`` for a text encoder of Hugging Face, or
            ``package.module:function`` for your own builder, which is called with the options and
            with those of ``input_shape``, ``samples`` and ``num_classes`` in its signature.
        input_shape: Shape of one sample: channels, height and width of an image.
        num_classes: Number of classes, at least 2.
        samples: The kind of sample, for models that need more than its shape.
        ten_crop: For models of images: evaluation takes the mean over ten crops.
        **options: See :func:`model_options`.

    Raises:
        ValueError: The name, an option, the samples or the number of classes is wrong; or the
            module of a custom builder does not end in a linear layer that outputs the logits.
        TypeError: A custom builder did not return a module.
    """
    from torch import nn

    from trainables.models.segmenter import Segmenter
    from trainables.models.splitting import as_classifier, check_batches, no_input
    from trainables.models.ten_crop import on_ten_crops

    check_model_options(name, ten_crop=ten_crop, **options)
    if not input_shape or not min(input_shape) >= 1:
        raise ValueError(f"input_shape={input_shape!r} must be one size or more, each at least 1")
    if not num_classes >= 2:
        raise ValueError(f"num_classes={num_classes!r} must be at least 2")
    builder = model_builder(name)
    asked = _asked(builder)
    if samples is not None:
        check_model_fits(name, samples)
    elif "samples" in asked:
        raise ValueError(f"model {name!r} needs samples=, the kind of sample")
    given = {"input_shape": input_shape, "samples": samples, "num_classes": num_classes}
    model = builder(**{key: given[key] for key in asked}, **options)
    if not isinstance(model, nn.Module):
        raise TypeError(f"model {name!r} returned {type(model).__name__}, not a torch module")
    if samples is not None and samples.each_pixel and not isinstance(model, Segmenter):
        raise ValueError(
            f"model {name!r} returned {type(model).__name__}, which gives no logits for each "
            "pixel; allowed: a Segmenter(encoder, head, input_shape)"
        )
    inputs = no_input(input_shape, samples)
    try:
        classifier = as_classifier(model, inputs, num_classes)
        if ten_crop:
            classifier = on_ten_crops(classifier, input_shape)
        if ten_crop or (name not in CATALOGUE.ours and not name.startswith(OTHERS)):
            check_batches(classifier, inputs)
        return classifier
    except ValueError as error:
        raise ValueError(f"model {name!r}: {error}") from error


def model_for(dataset: Dataset, name: str, options: Mapping[str, Any]) -> Classifier:
    """Like :func:`make_model`, for the samples and classes of a dataset."""
    return make_model(
        name,
        input_shape=dataset.input_shape,
        num_classes=dataset.num_outputs,
        samples=dataset.samples,
        **options,
    )


def _asked(builder: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments that a builder needs; the number of classes for one with only ``**kwargs``."""
    parameters = inspect.signature(builder).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return tuple(
        name for name in _GIVEN if name in parameters or (takes_any and name == "num_classes")
    )


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)
