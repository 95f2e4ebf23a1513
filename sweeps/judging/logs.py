"""Logs of language-model evaluations: lm-evaluation-harness's samples, and Inspect's logs.

A sample is a question with options; its scores are their log-probabilities. If all questions have
the same options, these are the classes. Otherwise only the chosen option is judged.
"""

from __future__ import annotations

import json
import string
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from sweeps.errors import UserError, first_line
from sweeps.judging.inputs import Scores
from sweeps.judging.proposals import Labels, Reading, Source
from sweeps.judging.tables import Table

Array = npt.NDArray[Any]

_OTHER = "another option"  # the right one, if the log only says that the chosen one is wrong
_LONG = 20  # characters of an option that may be the name of a class
_ZSTD = 93  # of zip, before Python 3.14 knows it
_LOCAL_HEADER = 30  # bytes before the name in a zip file


@dataclass(frozen=True)
class Question:
    """One sample of a log.

    Attributes:
        about: Its id and other columns.
        scores: The log-probability of each option; -inf if it is not in the log.
        options: Names of the options; empty if they differ from question to question.
        gold: The place of the right option; None if the log does not say it.
        right: Whether the chosen option is right; None if the log does not say it.
    """

    about: Mapping[str, Any]
    scores: Array
    options: tuple[str, ...]
    gold: int | None
    right: bool | None

    @property
    def chosen(self) -> int:
        return int(self.scores.argmax())

    @property
    def certain(self) -> bool:
        """Whether the right option is known, and agrees with what the log says of the answer."""
        known = self.gold is not None and 0 <= self.gold < len(self.scores)
        return known and self.right in (None, self.chosen == self.gold)


def log_reading(path: Path) -> Reading | None:
    """The content of a log; None if the file is none.

    Raises:
        UserError: The log has no log-probabilities, or cannot be read.
    """
    try:
        if (found := _questions(path)) is None:
            return None
        questions = [*found]
    except (OSError, ValueError, KeyError, TypeError, IndexError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: cannot be read as a log: {first_line(error)}") from None
    if not (kept := [each for each in questions if len(each.scores) > 1]):
        raise UserError(
            f"{path}: has no log-probabilities of options; needed: tasks of multiple choice, for "
            "Inspect with --logprobs and --top-logprobs 20"
        )
    left_out = len(questions) - len(kept)
    note = (f"{left_out:,} samples without log-probabilities left out",) if left_out else ()
    return _reading(path, kept, note)


def _reading(path: Path, questions: Sequence[Question], notes: tuple[str, ...]) -> Reading:
    names = {name: None for each in questions for name in each.about}

    def read(name: str) -> Array:
        values = [each.about.get(name) for each in questions]
        if any(isinstance(each, dict | list) or each is None for each in values):
            raise TypeError("is not one number or word for each sample")
        return np.array(values)

    counts = [len(each.scores) for each in questions]
    whole = len({*counts}) == 1 and all(
        each.certain and np.isfinite(each.scores).all() for each in questions
    )
    alike = {each.options for each in questions}
    options = alike.pop() if len(alike) == 1 else ()
    classes = options or tuple(f"option {place + 1}" for place in range(max(counts)))
    if whole:
        values = np.stack([each.scores for each in questions])
        gold = [classes[each.gold or 0] for each in questions]
        what = f"log-probabilities of {len(classes)} options"
    else:
        classes = classes if all(each.certain for each in questions) else (*classes, _OTHER)
        values = np.zeros((len(questions), len(classes)))
        for row, each in zip(values, questions, strict=True):
            row[: len(each.scores)] = softmax(each.scores)
        gold = [_true(each, classes) for each in questions]
        fewest, most = min(counts), max(counts)
        several = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        what = f"probabilities of the chosen one of {several} options"
    labels = Labels("the log", np.array(gold))
    scores = Scores(values, whole, classes, named=True, what=what, top_label_only=not whole)
    return Reading(Source(Table(path, tuple(names), read), labels, notes), scores)


def _true(question: Question, classes: Sequence[str]) -> str:
    if question.certain and question.gold is not None:
        return classes[question.gold]
    return classes[question.chosen] if question.right else _OTHER


def _questions(path: Path) -> Iterator[Question] | None:
    """The samples of a log; None if the file is none."""
    match path.suffix:
        case ".jsonl":
            with path.open(encoding="utf-8") as file:
                first = file.readline()
            return _of_harness(path) if '"filtered_resps"' in first else None
        case ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            is_log = isinstance(content, dict) and {"eval", "samples"} <= {*content}
            return map(_of_inspect, content["samples"]) if is_log else None
        case ".eval":
            return map(_of_inspect, _members(path))
    return None


def _of_harness(path: Path) -> Iterator[Question]:
    """The samples of lm-evaluation-harness, those of its first filter."""
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    for row in rows:
        if row.get("filter") == rows[0].get("filter"):
            yield _harness_question(row)


def _harness_question(row: dict[str, Any]) -> Question:
    about = {"doc_id": row["doc_id"], **row["doc"]}
    answers = row["filtered_resps"]
    if not all(isinstance(each, list) and len(each) == 2 for each in answers):  # generated text
        return Question(about, np.array([]), (), None, None)
    scores = np.array([float(each[0]) for each in answers])
    options = _continuations(row["arguments"])
    target = str(row["target"]).strip()
    gold = int(target) if target.isdecimal() else None
    if gold is None and options.count(target) == 1:
        gold = options.index(target)
    right = row.get("acc", row.get("exact_match"))
    if gold is None and right is not None and len(scores) == 2:
        gold = int(scores.argmax()) if right else int(scores.argmin())
    short = all(len(each) < _LONG for each in options)
    return Question(
        about, scores, options if short else (), gold, None if right is None else bool(right)
    )


def _continuations(arguments: Any) -> tuple[str, ...]:
    """What was scored after the question: in dictionaries, before version 0.4.4 in lists."""
    every = arguments.values() if isinstance(arguments, dict) else arguments
    pairs = ([*each.values()] if isinstance(each, dict) else each for each in every)
    return tuple(str(each[1]).strip() for each in pairs)


def _members(path: Path) -> Iterator[dict[str, object]]:
    with zipfile.ZipFile(path) as archive, path.open("rb") as raw:
        for member in archive.infolist():
            if not member.filename.startswith("samples/"):
                continue
            if member.compress_type != _ZSTD:
                yield json.loads(archive.read(member))
                continue
            import pyarrow as pa

            raw.seek(member.header_offset)
            header = raw.read(_LOCAL_HEADER)
            raw.seek(sum(int.from_bytes(header[at : at + 2], "little") for at in (26, 28)), 1)
            packed = raw.read(member.compress_size)
            yield json.loads(pa.decompress(packed, member.file_size, "zstd", asbytes=True))


def _of_inspect(sample: dict[str, Any]) -> Question:
    about = {"id": sample["id"], "epoch": sample["epoch"], **(sample.get("metadata") or {})}
    letters = string.ascii_uppercase[: len(sample.get("choices") or ())]
    token = _answer_token((sample.get("output") or {}).get("choices") or [], letters)
    score: dict[str, object] = next(iter((sample.get("scores") or {}).values()), {})
    if token is None or not score:
        return Question(about, np.array([]), (), None, None)
    known = {each["token"].strip(): each["logprob"] for each in token["top_logprobs"][::-1]}
    known[token["token"].strip()] = token["logprob"]
    scores = np.array([known.get(letter, -np.inf) for letter in letters])
    chosen, target = token["token"].strip(), sample["target"]
    # The letters are those that the model saw, which are others if the choices were shuffled.
    if score.get("answer") in (None, chosen) and len(target) == 1:
        return Question(about, scores, tuple(letters), letters.find(target[0]), None)
    if scores.max() > known[chosen]:  # the answer was drawn
        return Question(about, np.array([]), (), None, None)
    return Question(about, scores, tuple(letters), None, score["value"] in ("C", 1, True))


def _answer_token(outputs: list[Any], letters: str) -> dict[str, Any] | None:
    """The last token that is the letter of an option, with its alternatives."""
    content = (outputs[0].get("logprobs") or {}).get("content", []) if outputs else []
    for token in reversed(content):
        if token["token"].strip() in [*letters] and token.get("top_logprobs"):
            return dict(token)
    return None
