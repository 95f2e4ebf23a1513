"""The options that loaders of datasets share; :mod:`trainables.data` describes them."""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_type_hints

from trainables.data.core.bad_samples import OnBadSample
from trainables.plugins.arguments import Range

if TYPE_CHECKING:
    from trainables.data.core.base import Dataset

HeldOut: TypeAlias = (
    Annotated[float, Range(0, 1, open_low=True, open_high=True)] | Annotated[int, Range(1)]
)
"""Size of a held-out split: a fraction, or a number of samples."""

Validation: TypeAlias = HeldOut | str | os.PathLike[str]
"""Size of the validation split, or the path of its samples."""

SampleCount: TypeAlias = Annotated[int, Range(1)] | None
"""Number of samples to keep; ``None`` keeps all."""

Imbalance: TypeAlias = Annotated[float, Range(0, 1, open_low=True)] | None
"""Size of the rarest class over that of the most frequent one."""

Storage: TypeAlias = Literal["memory", "stream"] | None
"""Where images are kept; ``None`` decides by their size."""

Cache: TypeAlias = str | os.PathLike[str] | None
"""Cache folder of streamed images; ``None`` is ``~/.cache/calsweep``."""


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """The shared options of a loader; those that it does not take keep these values."""

    seed: int = 0
    test_size: HeldOut = 0.2
    image_size: Annotated[int, Range(1)] | None = None
    imbalance: Imbalance = None
    on_bad_sample: OnBadSample = "error"
    storage: Storage = None
    cache: Cache = None
    validation: HeldOut = 0.1
    validation_per_class: SampleCount = None
    train_samples: SampleCount = None


OF_IMAGES = ("image_size", "on_bad_sample", "storage", "cache")
_OF_ALL = ("seed", "validation", "validation_per_class", "train_samples")
_HINTS = get_type_hints(CommonOptions, include_extras=True)
_DEFAULTS = {field.name: field.default for field in fields(CommonOptions)}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def with_options(
    *names: str, own: type | None = None, **defaults: Any
) -> Callable[[Callable[..., "Dataset"]], Callable[..., "Dataset"]]:
    """Decorator of the function of a loader, which gets its shared options as ``common``.

    These are `names`, besides ``seed``, ``validation``, ``validation_per_class`` and
    ``train_samples``, which every loader has. `defaults` are the loader's own defaults of some. A
    loader with many options of its own gets them as an object of the dataclass `own`. An option
    that the loader itself declares is passed to it alone. The decorated function has all options by
    name in its signature.
    """
    kept = {**_DEFAULTS, **defaults, "seed": inspect.Parameter.empty}
    wanted = [name for name in _DEFAULTS if name in (*_OF_ALL, *names)]

    def decorate(load: Callable[..., "Dataset"]) -> Callable[..., "Dataset"]:
        function = getattr(load, "func", load)  # of a partial one
        declared = inspect.signature(own or load).parameters.values()
        parameters = {each.name: each for each in declared if each.name != "common"}
        shared = {name: kept[name] for name in wanted if name not in parameters}
        for name, default in shared.items():
            parameters[name] = inspect.Parameter(name, _KEYWORD, default=default)

        @wraps(function)
        def loader(*arguments: Any, seed: int, **options: Any) -> "Dataset":
            given = {name: options.pop(name) for name in shared if name in options}
            common = CommonOptions(**shared | given | {"seed": seed})
            of_loader = options if own is None else {"options": own(**options)}
            return load(*arguments, common=common, **of_loader)

        hints = get_type_hints(own or function, include_extras=True)
        loader.__annotations__ = {**_HINTS, **hints}
        loader.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
        return loader

    return decorate
