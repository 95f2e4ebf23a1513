"""A judgement as one HTML page, in the style of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sweeps.formatting import metric_heading
from sweeps.judging import words
from sweeps.judging.inputs import Predicted
from sweeps.redaction import redact
from sweeps.results.reliability import reliability_svg


def render_judgement(found: dict[str, Any], models: Sequence[Predicted]) -> str:
    templates = Environment(
        loader=ChoiceLoader(
            [PackageLoader("sweeps.judging", "."), PackageLoader("sweeps.results", ".")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
    )
    page = templates.get_template("judge.html.j2").render(
        found=found,
        words=words,
        heading=metric_heading,
        diagrams=[
            Markup(
                reliability_svg(
                    each.logits.numpy(), each.labels.numpy(), judged["temperature"], each.name
                )
            )
            for each, judged in zip(models, found["models"], strict=True)
        ],
    )
    return redact(page)
