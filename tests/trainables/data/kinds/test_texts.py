"""Texts from CSV and Parquet files."""

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainables.data import Dataset, Tokens, load_dataset
from trainables.data.kinds.encode import split_words


def write_csv(path: Path, header: str, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def sentences(count: int) -> list[str]:
    return [
        f"The {('cat', 'dog')[index % 2]} of house number{index} sleeps, and sleeps!"
        for index in range(count)
    ]


def load(form: str, train: Path, **options: Any) -> Dataset:
    return load_dataset(form, seed=0, train=train, **{"text": "text", **options})


def words(dataset: Dataset, row: np.ndarray) -> list[str]:
    assert isinstance(dataset.samples, Tokens)
    names = ("", "?", *dataset.samples.vocabulary)
    return [names[token] for token in row]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_words_become_numbers(tmp_path: Path, form: str) -> None:
    texts, labels = sentences(40), [("cats", "dogs")[index % 2] for index in range(40)]
    table = pa.table({"text": texts, "label": labels})
    path = tmp_path / f"a.{form}"
    if form == "csv":
        write_csv(
            path, "text,label", [f'"{t}",{label}' for t, label in zip(texts, labels, strict=True)]
        )
    else:
        pq.write_table(table, path)
    dataset = load(form, path, test=path, validation=10, max_words=6, max_tokens=7)
    assert dataset.classes == ("cats", "dogs")
    assert isinstance(dataset.samples, Tokens)
    assert dataset.samples.vocabulary[0] == "sleeps"
    assert set(dataset.samples.vocabulary) == {"sleeps", "and", "house", "of", "the", "cat"}
    assert dataset.test.inputs.dtype == np.int32
    expected = ["the", "cat", "of", "house", "?", "sleeps", "and"]
    assert words(dataset, dataset.test.inputs[0]) == expected


def test_the_vocabulary_is_that_of_the_training_part_only(tmp_path: Path) -> None:
    lines = [f"word{index} again,{index % 2}" for index in range(40)]
    path = write_csv(tmp_path / "a.csv", "text,label", lines)
    dataset = load("csv", path, validation=10, test_size=10)
    seen = {words(dataset, row)[0] for row in dataset.train.inputs}
    assert isinstance(dataset.samples, Tokens)
    assert set(dataset.samples.vocabulary) == seen | {"again"}
    assert len(seen) == 20
    for split in (dataset.validation, dataset.test):
        assert {words(dataset, row)[0] for row in split.inputs} == {"?"}


def test_short_texts_are_filled_up_and_the_longest_counts(tmp_path: Path) -> None:
    lines = [f"{'word ' * (index % 5 + 1)},{index % 2}" for index in range(40)]
    dataset = load("csv", write_csv(tmp_path / "a.csv", "text,label", lines))
    assert dataset.input_shape == (5,)
    assert {tuple(row) for row in dataset.train.inputs.tolist()} == {
        (2,) * count + (0,) * (5 - count) for count in range(1, 6)
    }


def test_quoted_texts_may_hold_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    lines = [f'"One, two ""{index}""\nand NA three",{index % 2}' for index in range(20)]
    lines += ['"NA",1', '"null",0']
    dataset = load("csv", write_csv(tmp_path / "a.csv", "text,label", lines), validation=2)
    longest = next(row for row in dataset.train.inputs if words(dataset, row)[0] == "one")
    assert words(dataset, longest)[:2] == ["one", "two"]
    assert words(dataset, longest)[3:] == ["and", "na", "three"]


def test_labels_are_numbered_from_1_in_ag_news(tmp_path: Path) -> None:
    lines = [f'{index % 4 + 1},"{text}"' for index, text in enumerate(sentences(40))]
    path = write_csv(tmp_path / "a.csv", "label,content", lines)
    dataset = load("csv", path, text="content", validation=8)
    assert dataset.classes == ("1", "2", "3", "4")


def test_words_are_lower_case_runs_of_letters_digits_and_inner_apostrophes() -> None:
    text = "Don't stop: it's 3.5 o'clock -- 'Übung' x_1"
    expected = ["don't", "stop", "it's", "3", "5", "o'clock", "übung", "x_1"]
    assert split_words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("हिन्दी में फ़िल्म", ["हिन्दी", "में", "फ़िल्म"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("مى\u200cخواهم كتاب", ["مى\u200cخواهم", "كتاب"]),
        ("cafe\u0301 CAFÉ l'e\u0301te\u0301", ["café", "café", "l'été"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("我喜欢电影。iPhone手机 好", ["我喜", "喜欢", "欢电", "电影", "iphone", "手机", "好"]),
        ("日本語・カタカナ", ["日本", "本語", "カタ", "タカ", "カナ"]),
        ("ไม่มีคน", ["ไม่", "ม่มี", "มีค", "คน"]),
        ("👍️ \u0301", []),
    ],
)
def test_words_of_other_scripts(text: str, expected: list[str]) -> None:
    normal = [unicodedata.normalize("NFC", each) for each in expected]
    assert split_words(text) == normal


def test_texts_that_share_few_words_are_noticed(tmp_path: Path) -> None:
    for form in ("sequence", "weighted_words"):
        for name, made in (("same", sentences(40)), ("other", [f"w{i} q{i} a" for i in range(40)])):
            lines = [f'"{text}",{index % 2}' for index, text in enumerate(made)]
            path = write_csv(tmp_path / f"{name}.csv", "text,label", lines)
            remarks = load("csv", path, text_form=form).remarks
            assert any("67% of the words are not among those" in each for each in remarks) == (
                name == "other"
            ), remarks


def test_bad_texts_are_reported_together_or_skipped(tmp_path: Path) -> None:
    lines = [f"{text},{index % 2}" for index, text in enumerate(["good text"] * 40)]
    lines[3], lines[7], lines[9] = ",1", "!!!,0", 'fine,""'
    path = write_csv(tmp_path / "a.csv", "text,label", lines)
    message = r"3 of 40 samples cannot be used \(dataset.on_bad_sample: skip skips them\)"
    with pytest.raises(ValueError, match=message) as caught:
        load("csv", path)
    for message in (
        "row 3 (from 0): there is no text",
        "row 7 (from 0): there is no word in the text",
        "row 9 (from 0): there is no label",
    ):
        assert f"train={path}, {message}" in str(caught.value)
    dataset = load("csv", path, on_bad_sample="skip")
    assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == 37
    (note,) = dataset.notes
    assert note.splitlines() == [
        "3 of 40 samples are skipped:",
        f"train={path}, row 3 (from 0): there is no text",
        f"train={path}, row 7 (from 0): there is no word in the text",
        f"train={path}, row 9 (from 0): there is no label",
    ]


@pytest.mark.slow
def test_20_newsgroups(shared_data: Path) -> None:
    folder = shared_data / "20newsgroups"
    dataset = load("parquet", folder / "train.parquet", test=folder / "test.parquet",
                   validation=900, on_bad_sample="skip")  # fmt: skip
    assert dataset.num_classes == 20
    assert len(dataset.test) == 7532 - sum("test=" in note for note in dataset.notes)
    assert dataset.input_shape == (256,)


def test_ag_news(shared_data: Path) -> None:
    folder = shared_data / "ag_news"
    dataset = load(
        "csv", folder / "dev.csv", test=folder / "test.csv", text="content", validation=800
    )
    assert dataset.classes == ("1", "2", "3", "4")
    assert [len(dataset.train), len(dataset.validation), len(dataset.test)] == [7200, 800, 7600]
    np.testing.assert_array_equal(np.bincount(dataset.validation.labels), np.full(4, 200))
