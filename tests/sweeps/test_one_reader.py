"""One file is the same table for `judge`, `init`, `run`, `check` and `predict`."""

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pa_feather
import pyarrow.ipc as pa_ipc
import pytest

from calsweep.composing import Composer
from sweeps.drafting.draft import draft_for
from sweeps.errors import UserError
from sweeps.judging.reading import read_predictions
from sweeps.judging.tables import open_table
from trainables.data import TableRows, load_dataset
from trainables.data.kinds.encode import as_table, encode
from trainables.export.raw_samples import describe_samples, read_raw

ROWS: Final = 40
SIZE: Final = np.arange(ROWS) * 37 % ROWS / 4 + 0.25
CODE: Final = np.array(["007", "3.10", "a;b", 'two\nlines, "so"'])[np.arange(ROWS) % 4]
LABEL: Final = np.array(["ill", "well"])[np.arange(ROWS) // 2 % 2]
COUNT: Final = np.arange(ROWS) * 7 % 13
FRAME: Final = pd.DataFrame({"size, km": SIZE, "code": CODE, "count": COUNT, "label": LABEL})

Write = Callable[[Path], object]


def text(separator: str = ",", before: str = "", encoding: str = "utf-8", **how: object) -> Write:
    def write(path: Path) -> None:
        content = FRAME.to_csv(sep=separator, index=False, **how)
        path.write_bytes((before + content).encode(encoding))

    return write


def spaced(path: Path) -> None:
    lines = FRAME.assign(**{"size, km": SIZE.astype(str), "count": FRAME["count"].astype(str)})
    quoted = [FRAME.columns, *lines.to_numpy()]
    cells = [[f'"{each.replace(chr(34), chr(34) * 2)}"' for each in row] for row in quoted]
    path.write_text("\n".join(map(", ".join, cells)))


def old_lines(path: Path) -> None:
    content = FRAME.to_csv(index=False, lineterminator="\r")
    path.write_bytes(content.encode())


def gzipped(path: Path) -> None:
    path.write_bytes(gzip.compress(FRAME.to_csv(index=False).encode()))


def lines_of_json(path: Path) -> None:
    FRAME.to_json(path, orient="records", lines=True)


def stream(path: Path) -> None:
    table = pa.Table.from_pandas(FRAME)
    with pa_ipc.new_stream(path, table.schema) as file:
        file.write_table(table)


def _with_views(table: pa.Table) -> pa.Table:
    place = table.column_names.index("code")
    return table.set_column(place, "code", table["code"].cast(pa.string_view()))


FORMS: Final[dict[str, Write]] = {
    "plain.csv": text(),
    "index.csv": lambda path: FRAME.to_csv(path),
    "semicolons.csv": text(";", decimal=","),
    "tabs.csv": text("\t"),
    "bars.csv": text("|"),
    "table.tsv": text("\t"),
    "packed.csv.gz": gzipped,
    "mark.csv": text(encoding="utf-8-sig"),
    "utf16.csv": text(encoding="utf-16"),
    "utf16.tsv": text("\t", encoding="utf-16"),
    "excel.csv": text(";", "sep=;\r\n", decimal=","),
    "comments.csv": text(before="# made by us, in 2026\n\n# second; line\n"),
    "header.csv": text(before="# "),  # NumPy's savetxt(header=…)
    "spaces.csv": spaced,
    "lines.csv": old_lines,
    "table.jsonl": lines_of_json,
    "packed.ndjson.gz": lambda path: FRAME.to_json(
        path, orient="records", lines=True, compression="gzip"
    ),
    "table.parquet": lambda path: FRAME.to_parquet(path),
    "table.feather": lambda path: pa_feather.write_feather(FRAME, path),
    "stream.arrow": stream,
    "views.arrow": lambda path: pa_feather.write_feather(
        _with_views(pa.Table.from_pandas(FRAME)), path, compression="uncompressed"
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_same_table_at_every_door(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    FORMS[name](path)

    judged = open_table(path, {"code", "label"})
    for column, values in FRAME.items():
        assert judged.column(str(column)).tolist() == values.tolist()

    draft = draft_for(str(path)).dataset
    assert draft["label"] == "label"
    options = {**draft, "validation": 2, "test": str(path)}
    dataset = load_dataset(options.pop("name"), seed=0, **options)
    samples = dataset.samples
    assert isinstance(samples, TableRows)
    assert samples.numeric == ("size, km", "count")
    assert [dataset.classes[each] for each in dataset.test.labels] == LABEL.tolist()

    rows, names, notes = read_raw(samples, path, id_column="code")
    assert names == CODE.tolist()
    assert not notes
    for found in (rows, dataset.test.rows(slice(ROWS))):
        numbers = found[:, :2] * samples.std + samples.mean
        np.testing.assert_allclose(numbers, FRAME[["size, km", "count"]].to_numpy(), atol=1e-5)
        codes = np.array(["", *samples.levels[0]])[found[:, 2].astype(int)]
        assert codes.tolist() == CODE.tolist()


FRAMES: Final[dict[str, Callable[[pd.DataFrame], object]]] = {
    "pandas": lambda frame: frame,
    "nullable": lambda frame: frame.convert_dtypes(),
    "categories": lambda frame: frame.astype({"code": "category"}),
    "arrow": lambda frame: pa.Table.from_pandas(frame),
    "string_view": lambda frame: _with_views(pa.Table.from_pandas(frame)),  # as of Polars
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_data_frame_is_the_table_of_its_file(name: str, tmp_path: Path) -> None:
    FORMS["plain.csv"](tmp_path / "a.csv")
    frame = FRAMES[name](FRAME.drop(columns="label"))
    section = Composer(str(tmp_path / "store")).dataset((frame, LABEL))  # run and the estimator
    assert isinstance(section, dict)
    datasets = [
        load_dataset(each.pop("name"), seed=0, validation=5, **each)
        for each in (section, {"name": "csv", "train": tmp_path / "a.csv"})
    ]
    of_frame, of_file = (each.samples for each in datasets)
    assert of_frame == of_file
    assert isinstance(of_frame, TableRows)
    for split in ("train", "validation", "test"):
        ours, theirs = (getattr(each, split) for each in datasets)
        np.testing.assert_array_equal(ours.rows(slice(40)), theirs.rows(slice(40)))
        np.testing.assert_array_equal(ours.labels, theirs.labels)
    described = describe_samples(of_frame)
    np.testing.assert_array_equal(
        encode(described, frame), read_raw(of_file, tmp_path / "a.csv")[0]
    )


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("table.csv", FRAME.to_csv())


SAMPLES: Final = TableRows(("a",), (0.0,), (1.0,), (False,), (), ())

REFUSED: Final[dict[str, tuple[Write, str]]] = {
    "zipped.csv": (zipped, "is a zip archive, as .xlsx files are"),
    "packed.csv": (gzipped, "is compressed by gzip: let its name end in .gz"),
    "parquet.csv": (FORMS["table.parquet"], "is a Parquet file: let its name end in .parquet"),
    "utf16.csv": (text(encoding="utf-16-le"), "UTF-16 needs a byte order mark"),
    "latin.csv": (
        lambda path: path.write_bytes("a,label\nü,x\nb,y\n".encode("latin-1")),
        "row 0 (from 0): a is not in UTF-8",
    ),
    "spaced.csv": (
        lambda path: path.write_bytes("a, label\nü, x\nb, y\n".encode("latin-1")),
        "row 0 (from 0): a is not in UTF-8",
    ),
    "quote.tsv": (
        lambda path: path.write_text(
            "\n".join(["a\tb", *(f"{chr(34) * (i % 4 == 1)}x\t{i}" for i in range(8))])
        ),
        "row 1 (from 0): a holds whole rows, because a quotation mark is not closed",
    ),
    "ragged.csv": (
        lambda path: path.write_text("# c\na,b\n1,2\n1,2,3\n"),
        "row 1 (from 0): 3 values, while the header names 2 columns: '1,2,3'",
    ),
    "one.json": (lambda path: path.write_text('[{"a": 1}]'), "is one JSON array"),
    "wrong.parquet": (FORMS["plain.csv"], "is not a Parquet file"),
    "wrong.feather": (FORMS["plain.csv"], "is not an Arrow or Feather file"),
    "empty.csv": (lambda path: path.write_text("a,b\n"), "has no rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_same_reason_at_every_door(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write, reason = REFUSED[name]
    write(path)
    form = {"one": "jsonl", "wrong": path.suffix[1:].replace("feather", "arrow")}.get(path.stem)
    doors: dict[str, Callable[[], object]] = {
        "judge": lambda: open_table(path),
        "init": lambda: draft_for(str(path)),
        "run": lambda: load_dataset(form or "csv", seed=0, train=path),
        "predict": lambda: read_raw(SAMPLES, path),
    }
    for door, read in doors.items():
        with pytest.raises((UserError, ValueError)) as caught:
            read()
        assert reason in str(caught.value), door
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("order", ["xy", "yx"])
def test_files_of_a_folder_unite_in_any_order(order: str, tmp_path: Path) -> None:
    x = [f"{i / 4},{i % 2},train" for i in range(20)]
    y = [f"{i % 2},{i * 7 % 5},{i / 3},test" for i in range(20)]
    contents = {"x": ["x,label,split", *x], "y": ["label,q,x,split", *y]}
    for number, name in enumerate(order):
        (tmp_path / f"{number}.csv").write_text("\n".join(contents[name]))
    options = draft_for(str(tmp_path)).dataset
    assert options["exclude"] == ["q"]
    dataset = load_dataset(options.pop("name"), seed=0, **options)
    assert (len(dataset.train) + len(dataset.validation), len(dataset.test)) == (20, 20)
    assert isinstance(dataset.samples, TableRows)
    assert dataset.samples.numeric == ("x",)
    lacking = f"{order.index('x')}.csv has no column 'q'"
    with pytest.raises(ValueError, match=lacking):
        load_dataset("csv", seed=0, train=tmp_path, split="split")


REGIONS: Final = np.array(["NA", "null", "south"])[np.arange(30) % 3]


def test_a_known_level_is_not_missing_in_csv(tmp_path: Path) -> None:
    rows = pd.DataFrame({"region": REGIONS, "x": np.arange(30) * 7 % 11, "label": [*"ab"] * 15})
    rows.to_parquet(tmp_path / "train.parquet")
    rows.to_csv(tmp_path / "new.csv")
    samples = load_dataset("parquet", seed=0, train=tmp_path / "train.parquet").samples
    ours, theirs = (read_raw(samples, tmp_path / f) for f in ("train.parquet", "new.csv"))
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert theirs[2] == ()
    of_csv = load_dataset("csv", seed=0, train=tmp_path / "new.csv", exclude=["x"]).samples
    assert read_raw(of_csv, tmp_path / "new.csv")[2] == ("missing values: region in 20 of 30 rows",)


def test_classes_called_na_and_numbers_as_text_are_judged(tmp_path: Path) -> None:
    probs = np.arange(1, 31) / 40
    frame = pd.DataFrame({"prob_NA": probs, "prob_eu": 1 - probs, "label": ["NA", "eu"] * 15})
    frame.to_csv(tmp_path / "a.csv")
    texts = frame.astype({"prob_NA": "string", "prob_eu": "string"})
    texts.to_parquet(tmp_path / "b.parquet")
    for name in ("a.csv", "b.parquet"):
        [model] = read_predictions([str(tmp_path / name)])
        assert model.classes == ("NA", "eu")
        assert model.labels.tolist() == [0, 1] * 15
        np.testing.assert_allclose(model.probs[:, 0], probs)


def test_quoted_line_breaks_after_a_megabyte(tmp_path: Path) -> None:
    note = '"a\nb' + "x" * 1000 + '"'
    lines = [f".{i % 9 + 1},{note},{i % 2}" for i in range(2_000)]
    (tmp_path / "a.csv").write_text("\n".join(["prob_1,note,label", *lines]))
    assert len(read_predictions([str(tmp_path / "a.csv")])[0].labels) == 2_000


def test_decimal_commas_are_found_by_all_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n0;1,234\n1;5\n0,25;7\n")
    assert open_table(tmp_path / "a.csv").column("a").tolist() == [0, 1, 0.25]
    (tmp_path / "b.csv").write_text("a;b\n0.5;1,234\n1;5,678\n")  # points, and thousands
    assert open_table(tmp_path / "b.csv").column("a").tolist() == [0.5, 1]
    assert open_table(tmp_path / "b.csv").column("b").tolist() == ["1,234", "5,678"]


def test_intervals_are_words_and_complex_numbers_are_refused() -> None:
    cut = pd.DataFrame({"age": pd.cut(pd.Series([1.0, 2.0, np.nan]), [0, 1, 2])})
    assert as_table(cut)["age"].to_pylist() == ["(0, 1]", "(1, 2]", None]
    with pytest.raises(ValueError, match="column z with type complex128"):
        as_table(pd.DataFrame({"z": [1j]}))


def test_check_names_labels_that_are_alike_and_columns_that_give_them_away(tmp_path: Path) -> None:
    lines = [f"{i * 7 % 59},{'xyz'[i % 3]},{('good ', 'Good', 'None')[i % 3]}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["a,code,label", *lines]))
    remarks = load_dataset("csv", seed=0, train=tmp_path / "a.csv").remarks
    assert remarks == (
        "column 'code' has one value for each class, so it gives the class away; exclude: [code] "
        "leaves it out",
        "the classes 'Good' and 'good ' differ in spaces or capitals only",
        "a class is called 'None': are these missing labels?",
    )


def test_marks_of_missing_numbers_are_missing_in_new_rows_too(tmp_path: Path) -> None:
    lines = [f"{'?' if i % 10 == 3 else i * 7 % 31},{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["power,label", *lines]))
    samples = load_dataset("csv", seed=0, train=tmp_path / "a.csv").samples
    assert isinstance(samples, TableRows)
    assert samples.numeric == ("power",)
    (tmp_path / "new.csv").write_text("power\n?\n")
    assert np.isnan(read_raw(samples, tmp_path / "new.csv")[0]).all()
