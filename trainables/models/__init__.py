"""Models by name, from timm, or by the dotted path of the user's own builder.

A builder is one function ``(*, input_shape, num_classes, ...options)`` that returns a
:class:`Classifier` with freshly drawn weights. To add one, write its file and name it in the table
below; an installed package offers its own by an entry point of the group ``calsweep.models``.
Weights come from torch's default generator alone: seed that for equal weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from trainables.components import Catalogue, check_options, options_of

if TYPE_CHECKING:
    from trainables.models.base import Classifier

__all__ = [
    "Classifier",
    "available_models",
    "check_model_options",
    "make_model",
    "model_builder",
    "model_options",
]


def __getattr__(name: str) -> Any:
    """Import torch only with the class that needs it: names can be checked without."""
    if name != "Classifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trainables.models.base import Classifier

    return Classifier


_TIMM = "timm/"
CATALOGUE: Final = Catalogue(
    kind="model",
    group="calsweep.models",
    others=f"{_TIMM}<any name in timm>",
    ours={
        "resnet101_cifar": "trainables.models.resnet_cifar:resnet101_cifar",
        "resnet18_cifar": "trainables.models.resnet_cifar:resnet18_cifar",
        "resnet34_cifar": "trainables.models.resnet_cifar:resnet34_cifar",
        "resnet50_cifar": "trainables.models.resnet_cifar:resnet50_cifar",
        "small_cnn": "trainables.models.small_cnn:small_cnn",
    },
)
_RESERVED = ("input_shape", "num_classes")


def available_models() -> tuple[str, ...]:
    """Names that :func:`make_model` knows, sorted; besides these, ``timm/<any name in timm>``."""
    return CATALOGUE.names()


def model_builder(name: str) -> Callable[..., Classifier]:
    """Returns the function behind a name, ``timm/<name>`` or ``package.module:function``.

    Raises:
        ValueError: There is no such model.
    """
    if name.startswith(_TIMM):
        from trainables.models.timm_models import timm_builder  # timm takes seconds to import

        return timm_builder(name.removeprefix(_TIMM))
    return CATALOGUE.find(name)  # type: ignore[no-any-return]


def model_options(name: str) -> dict[str, Any]:
    """Returns each option of a model with its default, ``components.REQUIRED`` where it has none.

    Raises:
        ValueError: There is no such model.
    """
    return options_of(model_builder(name), _RESERVED)


def check_model_options(name: str, **options: Any) -> None:
    """Checks names, types and ranges of a model's options without building it.

    Raises:
        ValueError: There is no such model, or its options are wrong; says what is allowed.
    """
    check_options(f"model {name!r}", model_builder(name), options, _RESERVED)


def make_model(
    name: str, *, input_shape: tuple[int, int, int], num_classes: int, **options: Any
) -> Classifier:
    """Builds a model with freshly drawn weights.

    Args:
        name: One of :func:`available_models`, ``timm/<name>`` for any model of timm, or
            ``package.module:function`` for a builder of the user's own. That is called with
            ``input_shape``, ``num_classes`` and the options.
        input_shape: Channels, height and width of one image.
        num_classes: At least 2.
        **options: See :func:`model_options`.

    Raises:
        ValueError: The name, an option, the input shape or the number of classes is wrong.
        TypeError: A user's builder returned something else than a :class:`Classifier`.
    """
    from trainables.models.base import Classifier

    check_model_options(name, **options)
    if len(input_shape) != 3 or not min(input_shape) >= 1:
        raise ValueError(f"input_shape={input_shape!r} must be (channels, height, width)")
    if not num_classes >= 2:
        raise ValueError(f"num_classes={num_classes!r} must be at least 2")
    model = model_builder(name)(input_shape=input_shape, num_classes=num_classes, **options)
    if not isinstance(model, Classifier):
        raise TypeError(
            f"model {name!r} returned {type(model).__name__}, not a Classifier(encoder, head)"
        )
    return model
