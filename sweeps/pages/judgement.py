"""A judgement as one HTML page, in the style of the report."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from sweeps.judging import event_sentences, sentences
from sweeps.judging.facts import Findings
from sweeps.judging.inputs import Predicted
from sweeps.messages.formatting import metric_heading
from sweeps.pages.event_diagram import event_svg
from sweeps.pages.reliability import reliability_svg
from sweeps.pages.report import page
from trainables.files.rows import Rows


def render_judgement(found: Findings, models: Sequence[Predicted]) -> str:
    return page(
        "pages/judge.html.j2",
        found=found,
        sentences=sentences,
        events=event_sentences,
        heading=metric_heading,
        event_diagrams=[
            Markup(event_svg("as given", each.event.bins, f"P({each.event.name}), {each.name}"))
            for each in found.models
            if each.event is not None
        ],
        diagrams=[
            Markup(
                reliability_svg(
                    Rows(each.logits.numpy(), each.labels.numpy()),
                    None if judged.scaling is None else judged.scaling.temperature,
                    each.name,
                )
            )
            for each, judged in zip(models, found.models, strict=True)
            if each.soft is None  # the error bars are those of single labels
        ],
    )
