"""The papers' table of a sweep, before and after temperature scaling, as Markdown or LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from sweeps.messages.formatting import (
    MARKDOWN,
    counted,
    format_hyperparameters,
    format_loss,
    markdown_table,
    metric_heading,
    over_groups,
)
from sweeps.results.columns import objective_metric
from sweeps.search.plan import Plan
from sweeps.search.ranking import Candidate, Ranking
from trainables.contract.metric_names import MetricName, groups_name
from trainables.contract.setting import BASELINE_LOSS

Form = Literal["markdown", "latex"]

NOT_PERCENT: Final = ("nll",)
LATEX: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "γ": r"$\gamma$",
        "λ": r"$\lambda$",
        "α": r"$\alpha$",
        "ε": r"$\varepsilon$",
        "τ": r"$\tau$",
        "ρ": r"$\rho$",
        "β": r"$\beta$",
        "–": "--",
        "±": r"$\pm$",
        "†": r"$^\dagger$",
    }
)


@dataclass(frozen=True)
class _Cell:
    value: float
    low: float
    high: float
    digits: int
    temperature: float | None = None

    @property
    def shown(self) -> str:
        return "–" if math.isnan(self.value) else f"{self.value:.{self.digits}f}"

    @property
    def more(self) -> str:
        """The interval, and the temperature if one was used."""
        ends = "" if math.isnan(self.low) else f" [{self.low:.{self.digits}f}, "
        ends += "" if math.isnan(self.high) else f"{self.high:.{self.digits}f}]"
        return ends + ("" if self.temperature is None else f" (T = {self.temperature:.2f})")


def paper_table(ranking: Ranking, plan: Plan, form: Form) -> str:
    """The best setting of each loss on the test split, as the papers print it.

    The columns are error, ECE, NLL and the objective's metric, before and after temperature
    scaling, with their 95% intervals and the temperature; means over the fresh seeds if there are
    any. The lowest value of each column is bold. Only settings within the guard and with the
    largest number of seeds compete, because a mean over seeds and a single lucky run are not
    comparable. LaTeX needs the package ``booktabs``. Without finished trials the table has no rows.
    """
    # The baseline first, as in the papers, then best first.
    candidates = sorted(ranking.best_by_loss.values(), key=lambda c: c.loss != BASELINE_LOSS)
    metrics = tuple(dict.fromkeys(("ece", objective_metric(ranking.rule.objective), "nll")))
    rows = [_cells(candidate, metrics) for candidate in candidates]
    best = min((candidate.tier for candidate in candidates), default=0)
    bold = _bold(rows, [c.feasible and c.tier == best for c in candidates])
    markup, write = (_IN_LATEX, _latex) if form == "latex" else (_IN_MARKDOWN, _markdown)
    body = _body(candidates, rows, bold, markup)
    return write(metrics, body, _caption(ranking, plan, candidates))


def _cells(candidate: Candidate, metrics: Sequence[str]) -> list[_Cell]:
    cells = [_cell(candidate, MetricName("error", "test"))]
    for metric in metrics:
        cells += [_cell(candidate, MetricName(metric, "test", s)) for s in (False, True)]
    cells[2] = replace(cells[2], temperature=candidate.mean("temperature"))  # once per row
    return cells


def _cell(candidate: Candidate, name: MetricName) -> _Cell:
    scale, digits = (1.0, 3) if name.metric in NOT_PERCENT else (100.0, 2)
    value, (low, high) = candidate.mean(name), candidate.interval(name)
    return _Cell(scale * value, scale * low, scale * high, digits)


def _bold(rows: Sequence[Sequence[_Cell]], feasible: Sequence[bool]) -> list[list[bool]]:
    """The cells with the lowest value of their column, as rounded."""
    columns = list(zip(*rows, strict=True))
    best = [
        min(
            (c.value for c, fits in zip(column, feasible, strict=True) if fits and c.value >= 0),
            default=math.nan,
        )
        for column in columns
    ]
    return [
        [
            passes and cell.shown == f"{lowest:.{cell.digits}f}"
            for cell, lowest in zip(row, best, strict=True)
        ]
        for row, passes in zip(rows, feasible, strict=True)
    ]


def _over(candidates: Sequence[Candidate]) -> str:
    return over_groups(candidates[0].mean(groups_name("test"))) if candidates else ""


def _caption(ranking: Ranking, plan: Plan, candidates: Sequence[Candidate]) -> str:
    seeds = {candidate.seeds for candidate in candidates}
    parts = [
        f"{plan.sweep.dataset.label}, {plan.sweep.model_label}, test split: the setting of each "
        f"loss with the lowest {ranking.rule.objective}, before and after temperature scaling.",
        f"In percent but for NLL and T, with 95% intervals{_over(candidates)}.",
    ]
    if most := max(seeds, default=0):
        parts.append(
            f"Means over {counted(most, 'fresh seed')} where it was a finalist, else one seed"
            + (", which is never bold." if len(seeds) > 1 else ".")
        )
    if not all(candidate.feasible for candidate in candidates):
        broken = {limit for candidate in candidates for limit in candidate.broken}
        others = [f" or not {limit}" for limit in ranking.rule.constraints if limit in broken]
        parts.append(
            f"† validation error more than {100 * ranking.rule.guard:g} points above "
            f"cross-entropy's{''.join(others)}."
        )
    return " ".join(parts)


@dataclass(frozen=True)
class _Markup:
    """How a format escapes special characters and writes a bold value, and `more` in brackets."""

    escapes: dict[int, str]
    bold: str
    more: Callable[[str], str]


def _body(
    candidates: Sequence[Candidate],
    rows: Sequence[Sequence[_Cell]],
    bold: Sequence[Sequence[bool]],
    markup: _Markup,
) -> list[list[str]]:
    lines = []
    for candidate, cells, strong in zip(candidates, rows, bold, strict=True):
        loss = format_loss(candidate.loss) + ("" if candidate.feasible else "†")
        setting = format_hyperparameters(candidate.setting.hyperparameters)
        shown = [
            (markup.bold.format(cell.shown) if lowest else cell.shown) + markup.more(cell.more)
            for cell, lowest in zip(cells, strong, strict=True)
        ]
        lines.append([loss.translate(markup.escapes), setting.translate(markup.escapes), *shown])
    return lines


def _markdown(metrics: Sequence[str], body: Sequence[Sequence[str]], caption: str) -> str:
    heads = ["loss", "setting", "error"]
    for metric in metrics:
        heads += [f"{metric_heading(metric)} {when}" for when in ("pre T", "post T")]
    table = markdown_table([heads, ["---", "---", *["---:"] * (len(heads) - 2)], *body])
    return f"{table}\n\n{caption.translate(MARKDOWN)}\n"


def _latex(metrics: Sequence[str], body: Sequence[Sequence[str]], caption: str) -> str:
    groups = [metric_heading(metric).translate(LATEX) for metric in metrics]
    heads = ["Loss", "Setting", "Error", *["pre $T$", "post $T$"] * len(metrics)]
    above = " & ".join(["", "", "", *(f"\\multicolumn{{2}}{{c}}{{{name}}}" for name in groups)])
    rules = " ".join(f"\\cmidrule(lr){{{4 + 2 * i}-{5 + 2 * i}}}" for i in range(len(groups)))
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            "\\begin{table*}",
            "\\centering\\small",
            f"\\caption{{{caption.translate(LATEX)}}}",
            f"\\begin{{tabular}}{{ll{'r' * (1 + 2 * len(groups))}}}",
            "\\toprule",
            f"{above} \\\\",
            rules,
            f"{' & '.join(heads)} \\\\",
            "\\midrule",
            *(f"{' & '.join(line)} \\\\" for line in body),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table*}",
            "",
        ]
    )


def _tiny(text: str) -> str:
    inner = text.strip().replace("T =", "$T$ =")
    return f" {{\\scriptsize {inner}}}" if inner else ""


_IN_MARKDOWN: Final = _Markup(MARKDOWN, "**{}**", lambda more: more.translate(MARKDOWN))
_IN_LATEX: Final = _Markup(LATEX, r"\textbf{{{}}}", _tiny)
