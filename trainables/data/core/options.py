"""The options that loaders of datasets share; :mod:`trainables.data` describes them."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_type_hints

from trainables.data.core.bad_samples import OnBadSample
from trainables.plugins.components import Range, WithOptions

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


class Loader(WithOptions):
    """A loader of datasets, which is called with its own options and shared ones by name.

    Its function gets shared options as one object, ``common``; and its own as parameters, or as one
    object, ``options``.
    """

    def __init__(
        self, load: Callable[..., "Dataset"], shared: Mapping[str, Any], own: type | None
    ) -> None:
        update_wrapper(self, getattr(load, "func", load))
        self._load, self._own = load, own
        declared = inspect.signature(own or load).parameters
        self._declared = {name: each for name, each in declared.items() if name != "common"}
        self._shared = {name: shared[name] for name in shared if name not in self._declared}

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The options by name: its own, then the shared ones."""
        keyword = inspect.Parameter.KEYWORD_ONLY
        return self._declared | {
            name: inspect.Parameter(name, keyword, default=default)
            for name, default in self._shared.items()
        }

    @property
    def hints(self) -> dict[str, object]:
        """The types of the options."""
        declared: Any = self._own or getattr(self._load, "func", self._load)
        return _HINTS | get_type_hints(declared, include_extras=True)

    def of(self, *arguments: Any, **defaults: Any) -> "Loader":
        """A loader with the first arguments of this one, and its own defaults of shared options."""
        return Loader(partial(self._load, *arguments), self._shared | defaults, self._own)

    def __call__(self, *arguments: Any, seed: int, **options: Any) -> "Dataset":
        """Loads the dataset with these options."""
        given = {name: options.pop(name) for name in self._shared if name in options}
        common = CommonOptions(**self._shared | given | {"seed": seed})
        own = options if self._own is None else {"options": self._own(**options)}
        return self._load(*arguments, common=common, **own)


def with_options(
    *names: str, own: type | None = None, **defaults: Any
) -> Callable[[Callable[..., "Dataset"]], Loader]:
    """Decorator of the function of a loader, which gets its shared options as ``common``.

    These are `names`, besides ``seed``, ``validation``, ``validation_per_class`` and
    ``train_samples``, which every loader has. `defaults` are the loader's own defaults of some. A
    loader with many options of its own gets them as an object of the dataclass `own`. An option
    that the loader itself declares is passed to it alone.
    """
    kept = {**_DEFAULTS, **defaults, "seed": inspect.Parameter.empty}
    shared = {name: kept[name] for name in _DEFAULTS if name in (*_OF_ALL, *names)}
    return lambda load: Loader(load, shared, own)
