"""A judgement as one HTML page, in the style of the report."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from sweeps.judging import event_sentences, sentences
from sweeps.judging.facts import Findings, Judged
from sweeps.judging.inputs import Predicted
from sweeps.messages.formatting import metric_heading
from sweeps.messages.shares import class_words
from sweeps.pages.event_diagram import event_svg
from sweeps.pages.reliability import reliability_svg
from sweeps.pages.report import page
from trainables.files.rows import Rows
from trainables.posthoc.chosen import Candidate, cross_fitted_scaling


def render_judgement(
    found: Findings, models: Sequence[Predicted], changes: Sequence[str] = ()
) -> str:
    """The page; `changes` are sentences on what has changed since earlier data."""
    return page(
        "pages/judge.html.j2",
        found=found,
        changes=changes,
        sentences=sentences,
        events=event_sentences,
        heading=metric_heading,
        event_diagrams=[
            Markup(
                event_svg(
                    each.name, each.event.bins, f"P({class_words(each.event.name)}), {each.name}"
                )
            )
            for each in found.models
            if each.event is not None
        ],
        diagrams=[
            Markup(reliability_svg(_views(each, judged), each.name))
            for each, judged in zip(models, found.models, strict=True)
            if each.soft is None  # the error bars are those of single labels
        ],
    )


def _views(model: Predicted, judged: Judged) -> dict[str, Rows]:
    """The predictions as given and, if one is recommended, after the scaling, by heading."""
    found = {"as given": Rows(model.logits.numpy(), model.labels.numpy())}
    best = "none" if judged.scaling is None else judged.scaling.recommended
    if best != "none":
        scaled = cross_fitted_scaling(Candidate(best), model.logits, model.labels, model.clusters)
        words = f"{sentences.METHODS[best]} (cross-fitted)"
        found[words] = Rows(scaled.numpy(), model.labels.numpy())
    return found
