"""`calsweep init` writes a sweep file that loads the given data."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import constants
from PIL import Image

from sweeps.drafting.draft import draft_for, sweep_file_text
from sweeps.drafting.writing import write_new_sweep_file
from sweeps.errors import UserError
from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.data_preview import data_facts
from sweeps.search.plan import Plan
from sweeps.sweep_file.loading import FIRST_LINE, load_sweep, read_sweep
from tests.harness.command import CALSWEEP, calsweep
from tests.harness.torchvision_files import write_fashion_mnist
from tests.harness.voc import write_voc

WORDS = "a text of some more words than a category would have, number"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of Hugging Face."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def images(folder: Path) -> Path:
    for part in ("train", "test"):
        for name in ("owl", "wren"):
            place = folder / "birds" / part / name
            place.mkdir(parents=True)
            for number in range(20):
                Image.new("RGB", (70, 50 + number), (number, 9, 9)).save(place / f"{number}.png")
    return folder / "birds"


def kaggle(folder: Path) -> Path:
    """Training/ and valid/, without test images."""
    for part in ("Training", "valid"):
        for name in ("owl", "wren"):
            place = folder / "kaggle" / part / name
            place.mkdir(parents=True)
            for number in range(20):
                Image.new("RGB", (30, 30), (number, 9, 9)).save(place / f"{number}.png")
    return folder / "kaggle"


def table(folder: Path) -> Path:
    rows = [f"{i},{i / 3:.2f},{'red' if i % 3 else 'blue'},{i % 2}" for i in range(60)]
    for name in ("train.csv", "test.csv"):
        (folder / name).write_text("\n".join(["a,b,colour,outcome", *rows]))
    return folder / "train.csv"


def customers(folder: Path) -> Path:
    """A realistic table: ids, dates, free text, a constant column, late missing values."""
    rows = [
        f"{1000 + i},2024-01-{1 + i % 28:02d},{i / 3:.2f},{i % 7},{'ab'[i % 2]},"
        f'"{WORDS} {i}",same,{"x" if i > 2_500 else 1},{"yes" if i % 3 else "no"}'
        for i in range(2_600)
    ]
    header = "customer_id,joined,income,visits,kind,remarks,source,late,has_churn"
    (folder / "customers.csv").write_text("\n".join([header, *rows]))
    return folder / "customers.csv"


def half_empty(folder: Path) -> Path:
    (folder / "pets" / "nothing").mkdir(parents=True)
    for name in ("cat", "dog"):
        (folder / "pets" / name).mkdir()
        for number in range(20):
            Image.new("RGB", (30, 30), (number, 9, 9)).save(
                folder / "pets" / name / f"{number}.png"
            )
    return folder / "pets"


def texts(folder: Path) -> Path:
    columns = {
        "id": list(range(60)),
        "what_was_said": [f"{WORDS} {i}" for i in range(60)],
        "Topic": ["sport" if i % 2 else "money" for i in range(60)],
    }
    pq.write_table(pa.table(columns), folder / "news.parquet")
    return folder / "news.parquet"


def parts(folder: Path) -> Path:
    (folder / "parts").mkdir()
    for part in range(2):
        columns = {"a": np.arange(60.0), "kind": ["x" if i % 3 else "y" for i in range(60)]}
        pq.write_table(pa.table(columns), folder / "parts" / f"part-{part}.parquet")
    return folder / "parts"


def visits(folder: Path) -> Path:
    """A table with several rows of each patient."""
    rows = [f"{i % 40},{i / 3:.2f},{'yes' if i % 3 else 'no'}" for i in range(160)]
    (folder / "visits.csv").write_text("\n".join(["patient_id,pressure,outcome", *rows]))
    return folder / "visits.csv"


def divided(folder: Path) -> Path:
    words = ("train", "train", "valid", "test")
    columns = {
        "text": [f"{WORDS} {i}" for i in range(80)],
        "topic": ["sport" if i % 3 else "money" for i in range(80)],
        "split": [words[i % 4] for i in range(80)],
    }
    pq.write_table(pa.table(columns), folder / "posts.parquet")
    return folder / "posts.parquet"


def arrays(folder: Path) -> Path:
    inputs = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    np.savez(folder / "signals.npz", X=inputs, y=np.arange(60) % 3)
    return folder / "signals.npz"


def satellite(folder: Path) -> Path:
    """Images of four channels, which come last."""
    pixels = np.random.default_rng(0).integers(0, 256, (60, 18, 20, 4), dtype=np.uint8)
    np.savez(folder / "fields.npz", images=pixels, y=np.arange(60) % 3)
    return folder / "fields.npz"


def scenes(folder: Path) -> Path:
    return write_voc(folder / "scenes", train=8, val=4)


@pytest.mark.parametrize(
    ("make", "name", "dataset", "classes"),
    [
        (images, "birds", {"name": "image_folder", "image_size": 64}, 2),
        (kaggle, "kaggle", {"name": "image_folder"}, 2),
        (table, "mine", {"name": "csv", "label": "outcome", "test": "test.csv"}, 2),
        (texts, "news", {"name": "parquet", "label": "Topic", "text": "what_was_said"}, 2),
        (
            customers,
            "customers",
            {
                "name": "csv",
                "label": "has_churn",
                "exclude": ["customer_id", "remarks", "source"],
                "dates": ["joined"],
            },
            2,
        ),
        (half_empty, "pets", {"name": "image_folder"}, 2),
        (parts, "parts", {"name": "parquet", "label": "kind"}, 2),
        (arrays, "signals", {"name": "npz", "inputs": "X", "label": "y"}, 3),
        (satellite, "fields", {"name": "npz", "inputs": "images"}, 3),
        (scenes, "scenes", {"name": "voc"}, 3),
        (visits, "visits", {"name": "csv", "label": "outcome", "group": "patient_id"}, 2),
        (divided, "posts", {"name": "parquet", "text": "text", "split": "split"}, 2),
    ],
)
def test_the_file_fits_the_data(
    tmp_path: Path, make: Any, name: str, dataset: dict[str, Any], classes: int
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    draft = draft_for(str(make(folder)))
    assert draft.name == name
    path = write_new_sweep_file(draft, draft.name, 7, str(tmp_path / "sweep.yaml"))
    assert Path(path).read_text().startswith(FIRST_LINE)
    sweep = load_sweep(path)
    assert (sweep.name, sweep.search.trials) == (name, 7)
    given = {"name": sweep.dataset.name, **sweep.dataset.options}
    assert all(str(given[key]).endswith(str(value)) for key, value in dataset.items())
    loaded = load_data(sweep)
    assert loaded.num_classes == classes
    fitted = fit_to_data(sweep, loaded)
    assert fitted.losses == sweep.losses  # all losses support such data
    assert f"# model: {fitted.model.name} " in Path(path).read_text()
    with pytest.raises(UserError, match="already exists"):
        write_new_sweep_file(draft, name, 7, str(tmp_path / "sweep.yaml"))


def test_what_is_not_understood_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.csv").write_text("a,b\n" + "\n".join(f"{i},{i}" for i in range(20)))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    (tmp_path / "b.txt").write_text("?")
    np.savez(tmp_path / "c.npz", one=np.zeros(3))
    for data, message in (
        ("digit", "did you mean 'digits'"),
        ("empty", "a folder of images for each class"),
        ("a.csv", r"none of its columns \(a, b\) looks like a label"),
        ("broken.parquet", "broken.parquet is not a Parquet file"),
        ("b.txt", "allowed: .csv, .tsv, .parquet"),
        ("c.npz", r"which of its arrays \(one\)"),
    ):
        with pytest.raises(UserError, match=message):
            draft_for(data if data == "digit" else str(tmp_path / data))


def test_few_images_or_texts_get_heads_on_a_network_in_the_cache(
    tmp_path: Path, cache: Path
) -> None:
    assert draft_for(str(half_empty(tmp_path))).frozen is None  # the cache does not exist
    for name, file in (
        ("timm--resnet18.a1_in1k", "config.json"),
        ("someone--encoder", "tokenizer.json"),
        ("someone--speaker", "config.json"),
    ):
        place = cache / f"models--{name}" / "snapshots" / "abc"
        place.mkdir(parents=True)
        for each in (file, "model.safetensors"):
            (place / each).write_text("{}")
    drafts = [draft_for(str(tmp_path / "pets")), draft_for(str(texts(tmp_path)))]
    found = [
        load_sweep(write_new_sweep_file(d, d.name, 7, f"{tmp_path / d.name}.yaml")) for d in drafts
    ]
    assert [each.model.name for each in found] == [
        *("timm/resnet18.a1_in1k", "huggingface/someone/encoder")
    ]
    for each in found:
        assert each.encoder is not None and each.encoder.frozen and each.training.epochs == 20
    assert found[0].dataset.options["image_size"] == 224
    assert found[1].dataset.options["tokenizer"] == "someone/encoder"
    assert draft_for(str(table(tmp_path))).frozen is None


@pytest.mark.parametrize(("rows", "share"), [(1_000, 0.25), (30_000, 0.17), (60_000, 0.1)])
def test_the_validation_share_fits_the_size_so_that_check_does_not_warn(
    tmp_path: Path, rows: int, share: float
) -> None:
    lines = [f"{i * 7919 % rows / 3:.3f},{'ab'[i % 2]}" for i in range(rows)]
    (tmp_path / "a.csv").write_text("\n".join(["size,label", *lines]))
    draft = draft_for(str(tmp_path / "a.csv"))
    assert draft.dataset.get("validation", 0.1) == share
    sweep = load_sweep(write_new_sweep_file(draft, "a", 5, str(tmp_path / "a.yaml")))
    dataset = load_data(sweep)
    facts = data_facts(Plan(fit_to_data(sweep, dataset)), dataset)
    assert "give dataset.validation more samples" not in facts["can detect"]


def test_index_columns_are_neither_features_nor_labels(tmp_path: Path) -> None:
    lines = [f"{i % 3},{i % 7}.5,{'ab'[i % 2]},{i % 3}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join([",size,sort,Unnamed: 0", *lines]))
    text = sweep_file_text(draft_for(str(tmp_path / "a.csv")), "a", 5)
    assert "2 classes in column sort; features are size." in text
    assert "  objective: val_event_ece " in text


def test_repeated_ids_are_noticed(tmp_path: Path) -> None:
    text = sweep_file_text(draft_for(str(visits(tmp_path))), "a", 5)
    assert "features are pressure." in text
    assert "# patient_id repeats, 40 groups in 160 rows: none is in two splits" in text
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text((tmp_path / "visits.csv").read_text())
    draft = draft_for(str(tmp_path / "train.csv"))
    assert "group" not in draft.dataset
    assert draft.comments[0].endswith("; with group: patient_id none may be in two splits")


def test_equal_rows_are_noticed(tmp_path: Path) -> None:
    lines = [f"{i % 190 / 7:.3f},{i * i % 190 % 89},{'ab'[i % 190 % 2]}" for i in range(200)]
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text("\n".join(["size,more,label", *lines]))
    draft = draft_for(str(tmp_path / "train.csv"))
    assert "group" not in draft.dataset
    assert draft.comments[0].startswith("10% of the rows equal another row in all features; `calsw")
    (tmp_path / "test.csv").unlink()
    draft = draft_for(str(tmp_path / "train.csv"))
    assert draft.dataset["group"] == "equal_rows"
    assert draft.comments[0].endswith(": equal rows are in one split")
    lines = [f"{WORDS} {i % 50},{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "said.csv").write_text(
        "\n".join(["words,label", *(f'"{each[:-2]}",{each[-1]}' for each in lines)])
    )
    assert draft_for(str(tmp_path / "said.csv")).dataset["group"] == "equal_rows"
    values, classes = np.arange(200) % 190, np.arange(200) % 2
    for labels in (classes, np.eye(2)[classes] * 0.5 + 0.25):  # also soft ones
        np.savez(tmp_path / "a.npz", x=np.stack([values, values**2], 1), y=labels)
        assert draft_for(str(tmp_path / "a.npz")).dataset["group"] == "equal_rows"
    labels = [*"aaaa", *("b" * 40), *([""] * 16)]  # two contents of class a, for three splits
    lines = [f"{i // 2 / 7:.3f},{i // 2},{label}" for i, label in enumerate(labels)]
    (tmp_path / "few.csv").write_text("\n".join(["size,more,label", *lines]))
    assert "group" not in draft_for(str(tmp_path / "few.csv")).dataset


def test_comments_match_the_kind_of_data(tmp_path: Path) -> None:
    about = {}
    for make in (customers, half_empty, texts):
        folder = tmp_path / make.__name__
        folder.mkdir()
        about[make] = sweep_file_text(draft_for(str(make(folder))), "a", 5)
    assert "# customer_id is excluded: numbers of the rows" in about[customers]
    assert "# joined: its year, month and weekday are features" in about[customers]
    assert "# source is excluded: constant" in about[customers]
    other = "model: {name: timm/resnet18, pretrained: true}"
    assert f"\n# {other}\n" in about[half_empty]
    changed = read_sweep(about[half_empty].replace(f"# {other}", other), "a.yaml")
    training = fit_to_data(changed, load_data(changed)).training
    assert (training.optimizer, training.lr) == ("adamw", 1e-4)  # its own recipe
    for make in (customers, texts):
        assert "timm" not in about[make]
        assert "svhn" not in about[make]


@pytest.mark.slow
def test_the_command_asks_what_is_left_out(tmp_path: Path) -> None:
    asked = subprocess.run(
        [CALSWEEP, "init"],
        input="\nfirst\n12\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "written: first.yaml" in asked.stdout
    sweep = load_sweep(str(tmp_path / "first.yaml"))
    assert (sweep.name, sweep.search.trials, sweep.dataset.name) == ("first", 12, "digits")
    named = calsweep(tmp_path, "init", "second.yaml", "--data", "cifar10", "--trials", "5")
    assert named.returncode == 0, named.stderr
    assert load_sweep(str(tmp_path / "second.yaml")).dataset.options == {"root": "./root"}
    data = calsweep(tmp_path, "init", str(tmp_path))
    assert data.returncode == 2
    assert f"already exists; if it is your data: --data {tmp_path}" in data.stderr
    bad = calsweep(tmp_path, "init", "--data", "digits", "--name", "no spaces")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert not (tmp_path / "no spaces.yaml").exists()


@pytest.mark.parametrize("below", ["", "FashionMNIST", "FashionMNIST/raw"])
def test_a_folder_of_torchvision_gives_a_root_that_works(tmp_path: Path, below: str) -> None:
    write_fashion_mnist(tmp_path / "data")
    draft = draft_for(str(tmp_path / "data" / below))
    assert draft.dataset == {"name": "fashion_mnist", "root": str(tmp_path / "data")}
    text = sweep_file_text(draft, "clothes", 40)
    dataset = load_data(read_sweep(text.replace("root:", "validation: 10\n  root:"), "clothes"))
    assert dataset.classes[0] == "T-shirt/top"


def test_several_datasets_of_torchvision_in_a_folder_are_named(tmp_path: Path) -> None:
    write_fashion_mnist(tmp_path)
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(UserError, match=r"several datasets \(cifar10, fashion_mnist\); give the"):
        draft_for(str(tmp_path))
    assert draft_for(str(tmp_path / "cifar-10-batches-py")).dataset["root"] == str(tmp_path)
