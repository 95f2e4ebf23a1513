"""The options that loaders of datasets share; :mod:`trainables.data` describes them."""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_type_hints

from trainables.data.core.bad_samples import OnBadSample
from trainables.plugins.components import Range

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
    train_samples: SampleCount = None


OF_IMAGES = ("image_size", "on_bad_sample", "storage", "cache")
_OF_ALL = ("seed", "validation", "train_samples")
_HINTS = get_type_hints(CommonOptions, include_extras=True)
_DEFAULTS = {field.name: field.default for field in fields(CommonOptions)}


def with_options(*names: str, **defaults: Any) -> Callable[..., Callable[..., "Dataset"]]:
    """Decorator of a loader: it gets its shared options as one argument, ``common``.

    These are `names`, besides ``seed``, ``validation`` and ``train_samples``, which every loader
    has. `defaults` are the loader's own defaults of some. An option that the loader itself declares
    is passed to it alone.
    """

    def decorated(load: Callable[..., "Dataset"]) -> Callable[..., "Dataset"]:
        signature = inspect.signature(load)
        own = [each for each in signature.parameters.values() if each.name != "common"]
        declared = {each.name for each in own}
        shared = [name for name in _DEFAULTS if name in (*_OF_ALL, *names) and name not in declared]

        @wraps(load)
        def loader(*arguments: Any, seed: int, **options: Any) -> "Dataset":
            given = {name: options.pop(name) for name in shared if name in options}
            return load(*arguments, common=CommonOptions(seed=seed, **defaults | given), **options)

        kept = {**_DEFAULTS, **defaults, "seed": inspect.Parameter.empty}
        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(name, keyword, default=kept[name]) for name in shared]
        loader.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        loader.__annotations__ = {**_HINTS, **load.__annotations__}
        return loader

    return decorated
