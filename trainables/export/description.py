"""``model.json``: what an exported classifier is, and how its samples are encoded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trainables.export.prediction_sets import Sets
    from trainables.export.raw_samples import RawForm

FILE: Final = "model.json"
FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class Exported:
    """An exported classifier: one network with its scaling, or the mean of several.

    Attributes:
        label: Its setting in words.
        recommended: Whether its sweep recommends it, and ``why``.
        loss: ``ensemble`` for networks of several settings.
        seed: Of one network.
        members: Numbers of the trials of several networks.
        networks: How many they are.
        scaling: See :meth:`~trainables.posthoc.scaling.Scaling.to_json`.
        test: Metrics on the test split by name.
        prediction_sets: Of each method and coverage, with their thresholds.
        verdict: Whether the setting beats scaled cross-entropy.
        digest: Of the data.
        text_column: The column of texts in training.
        several: Whether each class is a label of its own, with its own probability.
        outputs: Shape of the probabilities of a sample.
        dtype: Of encoded samples, whose shape is ``shape``.
        samples: See :func:`~trainables.export.raw_samples.describe_samples`.
        raw: What ``encode.py`` takes.
        frequencies: Of the classes in the validation split.
        calsweep: The version that exported it.
        format: Of this description.
    """

    label: str
    sweep: str
    dataset: str
    digest: str
    text_column: str | None
    model: str
    classes: tuple[str, ...]
    frequencies: tuple[float, ...] = ()
    several: bool
    outputs: tuple[int, ...]
    dtype: str
    shape: tuple[int, ...]
    samples: Mapping[str, Any]
    raw: RawForm
    calsweep: str
    recommended: bool
    why: str
    loss: str
    hyperparameters: Mapping[str, Any]
    temperature: float
    scaling: Mapping[str, Any]
    prediction_sets: Sets
    verdict: str | None
    test: Mapping[str, float] = field(default_factory=dict)
    seed: int | None = None
    members: tuple[int, ...] = ()
    networks: int = 1
    format: int = FORMAT

    @classmethod
    def read(cls, data: bytes) -> Exported:
        """Raises ``ValueError`` or ``TypeError`` for another file, or that of a newer version."""
        kept = json.loads(data)
        if (found := kept.get("format", FORMAT)) > FORMAT:
            raise ValueError(f"{FILE} has format {found}, and this calsweep reads up to {FORMAT}")
        known = {each.name: kept[each.name] for each in fields(cls) if each.name in kept}
        lists = ("classes", "frequencies", "outputs", "shape", "members")
        return cls(**{**known, **{key: tuple(known[key]) for key in lists if key in known}})

    def write(self) -> bytes:
        """The content of the file."""
        return json.dumps(vars(self), indent=1, ensure_ascii=False).encode()

    @property
    def each_pixel(self) -> bool:
        """Whether it gives probabilities of each pixel."""
        return len(self.outputs) > 1
