"""The sections on what a trial uses and where runs are tracked."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from sweeps.sweep_file.sections.fields import Count, Gpus, Resources, Section
from sweeps.sweep_file.yaml_text import shortened


def _check_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket or the port
        is_url = False
    if not is_url or not value.isprintable() or " " in value:
        raise ValueError(
            f"{shortened(value)} is not allowed; allowed: an address such as https://host/path"
        )
    return value


class ScalingSection(Section, frozen=True):
    """``scaling``: what one trial uses.

    Attributes:
        num_workers: Number of processes that train one trial together.
        cpus_per_worker: CPU cores of each process.
        gpus_per_worker: GPUs of each process. With ``auto``, trials use GPUs if the cluster has
            any, and small models share one; calsweep decides when the sweep starts.
        priority: Among sweeps that share a cluster, those with the highest priority get free slots
            first; those with the same share them evenly. Running trials are not interrupted.
        max_concurrent: Upper bound of concurrent trials; by default as many as there is room for.
    """

    num_workers: Resources = 1
    cpus_per_worker: Resources = 1
    gpus_per_worker: Gpus = "auto"
    max_concurrent: Count | None = None
    priority: Annotated[int, Field(ge=-100, le=100)] = 0

    @property
    def gpus(self) -> float:
        """GPUs of each worker; 0 until ``auto`` is resolved."""
        return 0.0 if self.gpus_per_worker == "auto" else self.gpus_per_worker

    @model_validator(mode="after")
    def _a_gpu_for_each_worker(self) -> ScalingSection:
        if self.num_workers > 1 and self.gpus_per_worker not in (0, 1, "auto"):
            raise ValueError(
                f"gpus_per_worker = {self.gpus_per_worker:g} is not allowed with num_workers = "
                f"{self.num_workers}; allowed: auto, 0 or 1, one GPU for each worker"
            )
        return self


class TrackingSection(Section, frozen=True):
    """``tracking``: where MLflow keeps the runs.

    Attributes:
        uri: Address of the tracking server; by default SQLite in the sweep store.
        experiment: Name of the experiment; by default derived from the dataset's name and content.
            Set it if you may write to only one experiment.
        register_model: Whether the recommended classifier is registered at the end. It becomes the
            ``champion`` of the dataset if the evidence allows, else ``challenger``.
        notify: A URL that gets a message (POST, JSON) when the sweep has ended: a webhook.
        notify_after_minutes: It also gets one when no epoch has ended for so long.
        notify_after_failures: It also gets one when so many trials have failed.
    """

    uri: str | None = None
    experiment: Annotated[str, Field(min_length=1, max_length=250)] | None = None
    register_model: bool = False
    notify: Annotated[str, AfterValidator(_check_url)] | None = None
    notify_after_minutes: Annotated[float, Field(gt=0, le=100_000)] | None = None
    notify_after_failures: Count | None = None

    @model_validator(mode="after")
    def _a_url_for_messages(self) -> TrackingSection:
        for key in ("notify_after_minutes", "notify_after_failures"):
            if self.notify is None and getattr(self, key) is not None:
                raise ValueError(f"{key} is not allowed without notify, the URL of a webhook")
        return self
