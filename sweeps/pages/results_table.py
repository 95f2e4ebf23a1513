"""One table of several sweeps for a paper: mean ± standard deviation over the fresh seeds."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any, Final, Literal

from sweeps.errors import UserError
from sweeps.evidence.columns import Column
from sweeps.evidence.comparison import verdicts_in_pairs
from sweeps.messages.formatting import MARKDOWN, finite, format_loss, markdown_table
from sweeps.results.side_by_side import Beside
from sweeps.results.verdicts import Arm, Verdict
from trainables.contract.config import ScalingWay
from trainables.contract.setting import BASELINE_LOSS
from trainables.files.rows import ReadRows

Key = Literal["loss", "dataset", "model", "sweep"]
Form = Literal["latex", "csv", "markdown", "json"]

_LATEX: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "–": "--",
        "±": r"$\pm$",
        "†": r"$^\dagger$",
    }
)
_MARKS: Final[Mapping[Verdict | None, str]] = {"supported": "+", "worse": "-"}
_MARKS_WITH_T: Final[Mapping[Verdict | None, str]] = {"supported": "+T", "worse": "-T"}
_CAPTION: Final = (
    "Test split, mean ± standard deviation over the fresh seeds of the best setting of each loss, "
    "in percent but for NLL. Bold: the best value of a sweep, and all that are not shown to be "
    "worse. + and -: shown to be better or worse than cross-entropy, +T and -T: than cross-entropy "
    "with its temperature, corrected for all pairs. "
    "Values without ± are from one seed, and † exceeds the guard; neither competes."
)
_PUBLISHED: Final = " In parentheses: the published value, as the sweep file names it."


@dataclass(frozen=True)
class Value:
    """A metric of a loss in one sweep, as a fraction.

    Attributes:
        mean: Mean over the seeds.
        deviation: Standard deviation over the seeds; NaN for a single one.
        best: Whether it is the best of its sweep, or not shown to be worse.
        verdict: Against cross-entropy; None if they were not compared.
        verdict_with_t: Against cross-entropy with its temperature, of metrics without one.
        published: What the paper reports, or None.
    """

    loss: str
    dataset: str
    model: str
    sweep: str
    metric: str
    mean: float
    deviation: float
    seeds: int
    best: bool
    verdict: Verdict | None
    within_guard: bool
    published: float | None = None
    verdict_with_t: Verdict | None = None


def values_of(
    one: Beside,
    columns: Sequence[Column],
    read: ReadRows,
    sweeps: int = 1,
) -> list[Value]:
    """The values of one sweep, the baseline first; errors as in :func:`verdicts_in_pairs`."""
    settings = sorted(
        one.ranking.best_by_loss.values(), key=lambda each: each.loss != BASELINE_LOSS
    )
    originals = {each.loss: one.ranking.original_of(each) for each in settings}
    compete = [
        each
        for each in settings
        if each.feasible and each.seeds and each.tier == 0 and each == originals[each.loss]
    ]
    temperature = ScalingWay("temperature", one.ranking.rule.scaling.criterion)
    comparable = [each.plain for each in columns if each.is_of_test and not each.method]
    verdicts = verdicts_in_pairs(compete, comparable, read, temperature, sweeps)
    found = []
    for column in columns:
        of_losses = {
            loss: [column.of(trial, read) for trial in each.judged]
            for loss, each in originals.items()
        }
        means = {loss: fmean(values) for loss, values in of_losses.items()}
        deviations = {
            loss: stdev(values) if len(values) > 1 and not math.isnan(means[loss]) else math.nan
            for loss, values in of_losses.items()
        }
        ranked = compete if column.is_of_test else []  # none is better than another
        known = [each for each in ranked if not math.isnan(means[each.loss])]
        best = (max if column.higher_is_better else min)(
            known, key=lambda each: means[each.loss], default=None
        )
        arms = {loss: Arm(each.loss, column.plain.scaled) for loss, each in originals.items()}
        of_column = {} if column.method else verdicts
        plain, scaled = Arm(BASELINE_LOSS, column.plain.scaled), Arm(BASELINE_LOSS, True)
        for loss, each in originals.items():
            arm = column.metric, arms[loss]
            against_best = of_column.get((*arm, arms[best.loss])) if best else None
            is_best = each == best or (each in known and against_best == "not supported")
            found.append(
                replace(
                    _untried(one, loss, column),
                    mean=means[loss],
                    deviation=deviations[loss],
                    seeds=each.seeds,
                    best=is_best,
                    verdict=of_column.get((*arm, plain)),
                    verdict_with_t=None if plain == scaled else of_column.get((*arm, scaled)),
                    within_guard=each.feasible,
                )
            )
        found += [_untried(one, loss, column) for loss in one.losses if loss not in originals]
    return found


def _untried(one: Beside, loss: str, column: Column) -> Value:
    """The value of a loss of which no trial has finished."""
    return Value(
        loss=format_loss(loss),
        dataset=one.sweep.dataset.label,
        model=one.sweep.model_label,
        sweep=one.sweep.name,
        metric=column.text,
        mean=math.nan,
        deviation=math.nan,
        seeds=0,
        best=False,
        verdict=None,
        within_guard=True,
        published=one.sweep.published.get(loss, {}).get(column.text),
    )


def results_table(values: Sequence[Value], rows: Key, columns: Key, form: Form) -> str:
    """The table as text; LaTeX needs the package ``booktabs``.

    Raises:
        UserError: Rows and columns are the same, or two values belong in one cell.
    """
    if rows == columns:
        raise UserError("rows and columns must differ", "rows", rows)
    if form == "json":
        return json.dumps([finite(vars(each)) for each in values], indent=1) + "\n"
    cells = _cells(values, rows, columns)
    names = list(dict.fromkeys(row for row, _, _ in cells))
    heads = list(dict.fromkeys((column, metric) for _, column, metric in cells))
    lines = [[(cells.get((name, *head))) for head in heads] for name in names]
    if form == "csv":
        return _csv(rows, heads, names, lines)
    if form == "markdown":
        titles = [rows, *(f"{column} {Column.parse(metric).heading}" for column, metric in heads)]
        body = [
            [name.translate(MARKDOWN), *(_shown(each, "**{}**") for each in line)]
            for name, line in zip(names, lines, strict=True)
        ]
        rule = ["---", *["---:"] * len(heads)]
        table = markdown_table([[title.translate(MARKDOWN) for title in titles], rule, *body])
        return f"{table}\n\n{_caption(values)}\n"
    return _latex(rows, heads, names, lines, _caption(values))


def _caption(values: Sequence[Value]) -> str:
    return _CAPTION + (_PUBLISHED if any(each.published is not None for each in values) else "")


_Cells = Mapping[tuple[str, str, str], Value]
_Lines = Sequence[Sequence[Value | None]]
_Heads = Sequence[tuple[str, str]]


def _cells(values: Sequence[Value], rows: Key, columns: Key) -> _Cells:
    cells: dict[tuple[str, str, str], Value] = {}
    for each in values:
        place = getattr(each, rows), getattr(each, columns), each.metric
        if place in cells:
            first = cells[place]
            raise UserError(
                f"{first.loss} of sweep {first.sweep} and {each.loss} of sweep {each.sweep} are "
                f"both in the cell {place[0]}, {place[1]}; choose other rows and columns: loss, "
                "dataset, model or sweep"
            )
        cells[place] = each
    return cells


def _shown(value: Value | None, bold: str) -> str:
    if value is None or math.isnan(value.mean):
        return "–"
    scale, digits = (100.0, 2) if Column.parse(value.metric).is_percent else (1.0, 3)
    text = f"{scale * value.mean:.{digits}f}"
    if not math.isnan(value.deviation):
        text += f" ± {scale * value.deviation:.{digits}f}"
    signs = [_MARKS.get(value.verdict), _MARKS_WITH_T.get(value.verdict_with_t)]
    mark = ",".join(filter(None, signs)) + ("" if value.within_guard else "†")
    if value.published is not None:
        mark += f" ({scale * value.published:.{digits}f})"
    return (bold.format(text) if value.best else text) + mark


def _csv(rows: str, heads: _Heads, names: Sequence[str], lines: _Lines) -> str:
    """A line per value: a spreadsheet reads numbers, not cells with marks."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    fields = (
        "metric",
        "mean",
        "deviation",
        "seeds",
        "best",
        "verdict",
        "verdict_with_t",
        "within_guard",
        "published",
    )
    writer.writerow([rows, "column", *fields])
    for name, line in zip(names, lines, strict=True):
        for (column, _), each in zip(heads, line, strict=True):
            if each is not None:
                writer.writerow([name, column, *(_plain(getattr(each, key)) for key in fields)])
    return text.getvalue()


def _plain(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


def _latex(rows: str, heads: _Heads, names: Sequence[str], lines: _Lines, caption: str) -> str:
    columns = list(dict.fromkeys(column for column, _ in heads))
    widths = [sum(head[0] == column for head in heads) for column in columns]
    groups = " & ".join(
        f"\\multicolumn{{{width}}}{{c}}{{{column.translate(_LATEX)}}}"
        for column, width in zip(columns, widths, strict=True)
    )
    starts = [2 + sum(widths[:i]) for i in range(len(widths))]
    rules = " ".join(
        f"\\cmidrule(lr){{{start}-{start + width - 1}}}"
        for start, width in zip(starts, widths, strict=True)
    )
    titles = " & ".join(Column.parse(metric).heading.translate(_LATEX) for _, metric in heads)
    body = [
        " & ".join([name.translate(_LATEX), *(_in_latex(each) for each in line)]) + r" \\"
        for name, line in zip(names, lines, strict=True)
    ]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            "\\begin{table*}",
            "\\centering\\small",
            f"\\caption{{{caption.translate(_LATEX)}}}",
            "\\label{tab:calibration}",
            f"\\begin{{tabular}}{{l{'r' * len(heads)}}}",
            "\\toprule",
            f" & {groups} \\\\",
            rules,
            f"{rows} & {titles} \\\\",
            "\\midrule",
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table*}",
            "",
        ]
    )


def _in_latex(value: Value | None) -> str:
    text = _shown(value, "{}").translate(_LATEX)
    return f"\\textbf{{{text}}}" if value is not None and value.best else text
