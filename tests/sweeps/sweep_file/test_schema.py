"""YAML features (anchors, merges, unusual values), and writing sweep files."""

import string
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sweeps.errors import UserError
from sweeps.sweep_file.loading import dump_sweep, load_sweep, parse_sweep, read_resolved
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.data import DatasetSection
from sweeps.sweep_file.sections.training import TrainingSection
from trainables.contract.config import OF_PILOT, TrainingConfig

HEAD = "name: small\ndataset: digits\nmodel: small_cnn\n"


def load(folder: Path, text: str, *overrides: str) -> SweepFile:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return load_sweep(str(path), overrides)


def test_anchors_and_merges_are_followed(tmp_path: Path) -> None:
    sweep = load(
        tmp_path,
        HEAD
        + "losses:\n"
        + "  - &narrow {name: focal, space: {gamma: {low: 1, high: 2}}}\n"
        + "  - {<<: *narrow, name: dual_focal}\n"
        + "training: {nesterov: &yes true, sync_batch_norm: *yes}\n",
    )
    focal, dual_focal = sweep.losses
    assert dual_focal.name == "dual_focal"
    assert dual_focal.space == focal.space
    assert focal.space["gamma"].high == 2.0
    assert sweep.training.nesterov is True
    assert sweep.training.sync_batch_norm is True


def test_what_is_merged_in_gives_way_to_what_is_written(tmp_path: Path) -> None:
    sweep = load(
        tmp_path,
        HEAD
        + "losses: [focal]\n"
        + "encoder:\n"
        + "  training: &base {epochs: 7, lr: 0.5}\n"
        + "training:\n"
        + "  epochs: 9\n"
        + "  <<: [*base, {lr: 0.25, momentum: 0.5}]\n",
    )
    assert (sweep.training.epochs, sweep.training.lr, sweep.training.momentum) == (9, 0.5, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        "model: {name: mlp, frozen: true, checkpoint: a.pt, head: mlp}\n",
        "model: mlp\nencoder: {frozen: true, checkpoint: a.pt, head: {kind: mlp}}\n",
        "model: mlp\nencoder: {training: {epochs: 0}, checkpoint: a.pt, head: mlp}\n",
    ],
)
def test_a_frozen_network_is_an_encoder_without_epochs(tmp_path: Path, text: str) -> None:
    sweep = load(tmp_path, f"name: small\ndataset: digits\nlosses: [focal]\n{text}")
    assert sweep.model.options == {}
    assert sweep.encoder is not None and sweep.encoder.frozen
    assert (sweep.encoder.checkpoint, sweep.encoder.head.kind) == ("a.pt", "mlp")
    assert sweep.model_label == "mlp+frozen"
    assert load(tmp_path, dump_sweep(sweep)) == sweep


def test_a_model_that_is_not_frozen_has_no_encoder(tmp_path: Path) -> None:
    for model, options in (
        ("{name: mlp, frozen: false}", {}),
        ("{name: 'own:net', head: wide, checkpoint: a.pt}", {"head": "wide", "checkpoint": "a.pt"}),
    ):
        sweep = load(tmp_path, f"name: a\ndataset: digits\nlosses: [focal]\nmodel: {model}\n")
        assert (sweep.model.options, sweep.encoder) == (options, None)


def test_a_fault_that_is_merged_in_is_reported_where_it_is_written(tmp_path: Path) -> None:
    text = "losses: [focal]\nencoder: {training: &base {lr: -1}}\ntraining: {<<: *base}\n"
    with pytest.raises(UserError) as caught:
        load(tmp_path, HEAD + text)
    encoder, training = str(caught.value).splitlines()
    assert "line 5: encoder.training.lr = -1 is not allowed" in encoder
    assert "line 5: training.lr = -1 is not allowed" in training


def test_a_date_is_text(tmp_path: Path) -> None:
    sweep = load(tmp_path, HEAD.replace("small\n", "2020-01-01\n") + "losses: [focal]\n")
    assert sweep.name == "2020-01-01"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("!!bool perhaps", r"line 5: x = 'perhaps' is not allowed; allowed: true or false"),
        ("!!omap [a: 1]", r"line 5: x = the tag !!omap is not allowed"),
        ("!!pairs [a: 1]", r"line 5: x = the tag !!pairs is not allowed"),
        ("!own [1]", r"line 5: x = the tag !own is not allowed"),
        ('!!python/object/apply:os.system ["x"]', r"line 5: x = the tag !!python/object/apply"),
        ("&own {<<: *own}", r"line 5: x = \*own is not allowed, as it lies in itself"),
        ("{<<: 3}", r"line 5: not valid YAML: << wants a mapping"),
        ("{<<: }", r"line 5: not valid YAML: << wants a mapping"),
        ("0x" + "f" * 5000, r"line 5: x = '0xff.*\.\.\. is not allowed; allowed: whole numbers"),
        ("9" * 5000, r"line 5: x = '99.*\.\.\. is not allowed; allowed: whole numbers"),
        ("0x_", r"line 5: x = '0x_' is not allowed; allowed: whole numbers"),
        ("{? [1]: 2}", r"line 5: not valid YAML: a key must be text"),
        ("{!own a: 2}", r"line 5: !own is not allowed for a key"),
    ],
)
def test_unsupported_yaml_features(tmp_path: Path, value: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path, HEAD + f"losses: [focal]\nx: {value}\n")
    assert len(str(caught.value)) < 400


def test_aliases_within_aliases_are_counted(tmp_path: Path) -> None:
    levels = "".join(
        f"  {name}: &{name} [{', '.join([f'*{below}'] * 10)}]\n"
        for below, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(UserError, match="more than 20,000 values"):
        load(tmp_path, HEAD + f"losses: [focal]\nx:\n  a: &a [1, 2]\n{levels}")


def test_what_is_no_sweep_file_is_not_read_to_its_end() -> None:
    with pytest.raises(UserError, match="/dev/zero: more than 1 MiB"):
        load_sweep("/dev/zero")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.batch_size=9223372036854775808", r"'9223372036854775808' is not .* numbers up"),
        (
            "training.batch_size=9223372036854775807",
            r"batch_size = 92.*allowed: less than or equal",
        ),
        ("search.seed=2147483648", r"search.seed = 2147483648 .*allowed: less than or equal"),
        ("scaling.gpus_per_worker=1e30", r"gpus_per_worker: 1e\+30 is not allowed; allowed: auto"),
        ("training.lr=1e308", r"training.lr = 1e\+308 .*less than or equal to 1000000"),
    ],
)
def test_numbers_beyond_their_bounds(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(tmp_path, HEAD + "losses: [focal]\n", override)


def test_every_number_in_the_schema_has_a_bound() -> None:
    """Catches a new number without a bound."""
    unbounded = [
        f"{section}.{key}"
        for section, about in SweepFile.model_json_schema()["$defs"].items()
        for key, field in about.get("properties", {}).items()
        for kind in field.get("anyOf", [field])
        if kind.get("type") in ("integer", "number")
        and not ({"maximum", "exclusiveMaximum"} & kind.keys())
    ]
    assert unbounded == []


@pytest.mark.parametrize(
    "loss",
    [
        "{name: focal, hyperparameters: {gamma: 1e308}}",
        "{name: focal, space: {gamma: {low: 0, high: 1e308}}}",
        "{name: focal, space: {gamma: {choices: [1, 1e308]}}}",
    ],
)
def test_hyperparameters_have_a_bound(tmp_path: Path, loss: str) -> None:
    with pytest.raises(UserError, match=r"losses\.0\..*gamma.*1000000|1,000,000"):
        load(tmp_path, HEAD + f"losses: [{loss}]\n")


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + (HEAD + "losses: [focal]\n").encode())
    assert load_sweep(str(path)).name == "small"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "losses: [focal]\n7: x\n", r"line 5: unknown key '7'; allowed: name, dataset"),
        (HEAD + "losses: &own [*own]\n", r"line 4: losses\.0 = \*own .*in itself"),
        (HEAD + "losses: [!python/object focal]\n", r"line 4: losses\.0 = .*!python/object"),
        ("[" * 5000, r"not valid YAML: .*recursion"),
        (HEAD + "losses: [focal]\nx: \x01\n", r"not valid YAML: .*character"),
        (HEAD + "losses: [focal]\n---\nname: b\n", r"line 5: not valid YAML: .*document"),
        (HEAD + "losses: [focal]\n\ttraining: 3\n", r"line 5: not valid YAML"),
        (HEAD.replace("small\n", "a/b\n") + "losses: [focal]\n", r"line 1: name = 'a/b'.*letters"),
        (HEAD.replace("small\n", "x" * 101 + "\n") + "losses: [focal]\n", r"allowed: at most 100"),
        (HEAD.replace("digits", "4") + "losses: [focal]\n", r"line 2: dataset = 4 .*mapping"),
        (HEAD.replace("digits", "{}") + "losses: [focal]\n", r"line 2: dataset.name is missing"),
        (HEAD + "losses: {focal: 3}\n", r"line 4: losses = .*allowed: a list"),
        (HEAD + "losses: [focal]\ntraining:\n", r"line 5: training = None .*expected a mapping"),
        (HEAD + "losses: [focal]\ntraining: {lr: .inf}\n", r"training.lr = inf .*finite"),
        (HEAD + "losses: [focal]\nsearch: {max_hours: 0}\n", r"search.max_hours = 0 .*greater"),
        (
            HEAD + "losses: [focal]\nsearch: {constraints: {val_nll: {}}}\n",
            r"search.constraints.val_nll: nothing is given; allowed: one of at_most, at_least, abo",
        ),
        (
            HEAD + "losses: [focal]\nsearch: {constraints: {val_nll: {at_most: 1, at_least: 0}}}\n",
            r"search.constraints.val_nll: at_most and at_least is given; allowed: one of",
        ),
        (
            HEAD + "losses: [focal]\nsearch: {constraints: {val_nll: {most: 1}}}\n",
            r"unknown key 'most' in search.constraints.val_nll.*allowed: at_most",
        ),
        (
            HEAD + "losses: [focal]\nsearch: {constraints: {val_nll: .inf}}\n",
            r"search.constraints.val_nll.at_most = inf is not allowed",
        ),
        (HEAD + "losses: [focal]\nsearch: {max_epochs: 0}\n", r"search.max_epochs = 0 .*greater"),
        (
            HEAD + "losses: [focal]\ntraining: {epochs: 9}\nsearch: {max_epochs: 8}\n",
            r"search.max_epochs = 8 is not allowed with training.epochs = 9; allowed: 9 or more",
        ),
        (
            HEAD + "losses: [focal]\nsearch: {max_gpu_hours: 2}\nscaling: {gpus_per_worker: 0}\n",
            r"search.max_gpu_hours = 2 is not allowed with scaling.gpus_per_worker = 0, .*_hours",
        ),
        (HEAD + "losses: [focal]\ntraining: {milestones: [2]}\n", r"milestones.0 = 2 .*less than"),
        (
            HEAD + "losses: [focal]\ntraining: {batch_size: 2}\nscaling: {num_workers: 4}\n",
            r"training.batch_size = 2 is not .* scaling.num_workers = 4, .*; allowed: 4 or more",
        ),
        (
            HEAD + "losses: [focal]\nencoder: {training: {batch_size: 3}}\n"
            "scaling: {num_workers: 4}\n",
            r"encoder.training.batch_size = 3 is not allowed .*; allowed: 4 or more",
        ),
        (
            "name: a\ndataset: digits\nlosses: [focal]\nmodel: {name: mlp, head: mlp}\n",
            r"model.head needs model.frozen = true, got None",
        ),
        (
            "name: a\ndataset: digits\nlosses: [focal]\n"
            "model: {name: mlp, frozen: true}\nencoder: {}\n",
            r"model.frozen is short for encoder.frozen; leave one of them",
        ),
        (
            HEAD + "losses: [focal]\nencoder: {frozen: true, training: {lr: 1.0}}\n",
            r"training.lr is not allowed with frozen = true",
        ),
        (
            HEAD + "losses: [focal]\nencoder: {frozen: false, training: {epochs: 0}}\n",
            r"encoder.training.epochs = 0 is not allowed",
        ),
        (
            HEAD + "losses: [focal]\nencoder: {checkpoint: a.pt}\n",
            r"checkpoint = a.pt is not allowed with frozen = false",
        ),
        (
            HEAD + "losses: [focal]\nencoder: {frozen: true}\ntraining: {augmentation: crop}\n",
            r"training.augmentation = crop is not allowed .*; allowed: none",
        ),
        (
            HEAD + "losses: [focal]\nencoder: {training: {schedule: plateau}}\n",
            r"training.schedule = plateau is not allowed.*; allowed: constant, step or cosine",
        ),
        (
            HEAD + "losses: [focal]\nencoder: {training: {keep: val_ece}}\n",
            r"training.keep = val_ece is not allowed.*; allowed: last",
        ),
        (HEAD + "losses: [focal]\ntraining: {keep: val_eec}\n", r"keep = .*val_eec.*val_ece"),
    ],
)
def test_values_that_no_sweep_file_may_contain(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path, text)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("loss", "key"),
    [
        ("{name: focal, hyperparameters: {gamma: [1]}}", "hyperparameters.gamma"),
        ("{name: focal, hyperparameters: {gamma: .nan}}", "hyperparameters.gamma"),
        ("{name: focal, hyperparameters: {gamma: null}}", "hyperparameters.gamma"),
        ("{name: focal, space: {gamma: {choices: [1, [2]]}}}", "space.gamma.choices.1"),
        ("{name: focal, space: {gamma: {choices: [-.inf]}}}", "space.gamma.choices.0"),
    ],
)
def test_a_value_of_no_allowed_type_is_reported_once(tmp_path: Path, loss: str, key: str) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, HEAD + f"losses: [{loss}]\n")
    (line,) = str(caught.value).splitlines()
    assert f"line 4: losses.0.{key}: " in line
    assert line.endswith(
        "allowed: a finite number from -1,000,000 to 1,000,000, text, true or false"
    )


@pytest.mark.parametrize(
    "loss",
    [
        "{name: focal, space: {gamma: {low: .nan, high: 3}}}",
        "{name: focal, space: {gamma: {low: 1, high: .inf}}}",
        "{name: focal, space: {gamma: {choices: []}}}",
        "{name: focal, space: {gamma: {choices: [1], low: 1, high: 2}}}",
        "{name: focal, space: {gamma: 3}}",
        "{space: {}}",
    ],
)
def test_bad_ranges_are_reported_with_line_and_loss(tmp_path: Path, loss: str) -> None:
    with pytest.raises(UserError, match=r"line 4: losses\.0") as caught:
        load(tmp_path, HEAD + f"losses: [{loss}]\n")
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("source", ["~no_such_user/sweep.yaml", "x" * 300, "../nowhere"])
def test_a_path_that_cannot_be_is_reported_as_missing(source: str) -> None:
    with pytest.raises(UserError, match="no such file, nor a ready-made sweep of that name"):
        load_sweep(source)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("=5", "write KEY=VALUE"),
        ("training..epochs=5", "write KEY=VALUE"),
        ("losses.0.name=mmce", r"set losses.0.name=mmce: losses has no keys inside"),
        ("losses=[focal", r"set losses=\[focal, line 1: not valid YAML"),
        ("training={epochs: 3, epoks: 4}", r"set .*: unknown key 'epoks'.*'epochs'"),
        ("training.epochs=", r"set training.epochs=: training.epochs = None"),
    ],
)
def test_overrides_that_do_not_fit(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(tmp_path, HEAD + "losses: [focal]\n", override)


def test_an_override_reaches_into_a_short_form(tmp_path: Path) -> None:
    sweep = load(tmp_path, HEAD + "losses: [focal]\n", "dataset.train_samples=100")
    assert sweep.dataset.name == "digits"
    assert sweep.dataset.options == {"train_samples": 100}


@pytest.mark.parametrize(
    ("section", "label"),
    [
        ({"name": "digits"}, "digits"),
        ({"name": "digits", "title": "mine"}, "mine"),
        ({"name": "parquet", "train": "/data/birds/train.parquet"}, "parquet:birds"),
        ({"name": "parquet", "train": "s3://bucket/fish/train.parquet"}, "parquet:fish"),
        ({"name": "parquet", "train": "/data/birds/train"}, "parquet:birds"),
        ({"name": "parquet", "train": "s3://bucket/cats/data/train/x.parquet"}, "parquet:cats"),
        ({"name": "parquet", "train": "data/train.parquet"}, "parquet:data"),
        ({"name": "parquet", "train": "train.parquet"}, "parquet"),
        ({"name": "csv", "train": "/"}, "csv"),
        ({"name": "csv", "train": "tables/heart.csv"}, "csv:heart"),
        ({"name": "csv", "train": "ag_news/dev.csv"}, "csv:ag_news"),
        ({"name": "csv", "train": "heart/part-*.csv"}, "csv:heart"),
        ({"name": "npz", "train": "s3://bucket/sounds.npz"}, "npz:sounds"),
        ({"name": "image_folder", "root": "/data/cats/"}, "image_folder:cats"),
        ({"name": "my.module:load", "root": "/data/cats/"}, "my.module:load"),
    ],
)
def test_what_a_dataset_is_called(section: dict[str, str], label: str) -> None:
    assert DatasetSection(**section).label == label


text = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
number = st.floats(-1e6, 1e6)
scalar = st.one_of(st.booleans(), st.integers(-(10**6), 10**6), number, text)
names = st.text(string.ascii_letters + string.digits, min_size=1, max_size=10)
option_names = st.text(string.ascii_lowercase, min_size=1).filter(
    lambda key: key not in ("name", "title")
)
ranges = st.tuples(number, number, st.booleans()).map(
    lambda drawn: {
        "low": min(drawn[:2]),
        "high": max(drawn[:2]),
        "log": drawn[2] and min(drawn[:2]) > 0,
    }
)
spaces = st.one_of(ranges, st.lists(scalar, min_size=1, max_size=3).map(lambda c: {"choices": c}))
loss_sections = st.fixed_dictionaries(
    {"name": text},
    optional={
        "space": st.dictionaries(text, spaces, max_size=2),
        "hyperparameters": st.dictionaries(text, scalar, max_size=2),
    },
)
sweeps: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "name": names,
        "dataset": st.tuples(text, st.dictionaries(option_names, scalar, max_size=3)).map(
            lambda drawn: {"name": drawn[0], **drawn[1]}
        ),
        "model": text,
        "losses": st.lists(loss_sections, min_size=1, max_size=3, unique_by=lambda x: x["name"]),
    },
    optional={
        "training": st.fixed_dictionaries(
            {},
            optional={
                "lr": st.floats(1e-300, 1e6),
                "epochs": st.integers(1, 100_000),
                "milestones": st.lists(st.floats(0.001, 0.999), max_size=3),
                "clip_grad_norm": st.one_of(st.none(), st.floats(1e-9, 1e6)),
            },
        ),
        "search": st.fixed_dictionaries(
            {}, optional={"seed": st.integers(0, 2**31 - 1), "objective": text}
        ),
        "tracking": st.fixed_dictionaries({}, optional={"uri": st.one_of(st.none(), text)}),
    },
)


@given(tree=sweeps)
def test_a_resolved_file_reads_as_the_same_sweep_whatever_it_holds(tree: dict[str, Any]) -> None:
    sweep = parse_sweep(tree)
    read = read_resolved(dump_sweep(sweep), "sweep.yaml")
    assert read == sweep
    assert repr(read) == repr(sweep)  # 1 == 1.0 == True


def test_the_training_section_has_all_that_the_training_loop_takes() -> None:
    """Keys, defaults and limits are stated once, for the loop; the section inherits them."""
    taken = {field.name: field.default for field in fields(TrainingConfig)}
    given = {name: field.default for name, field in TrainingSection.model_fields.items()}
    assert given == {**taken, **dict.fromkeys(OF_PILOT)}
    assert asdict(TrainingSection().config()) == taken
    assert type(TrainingSection().config()) is TrainingConfig  # a class that workers can unpickle
    for key, limits in get_type_hints(TrainingConfig, include_extras=True).items():
        for limit in getattr(limits, "__metadata__", ()):
            with pytest.raises(ValidationError, match=key):
                TrainingSection.model_validate({key: limit.low - 1})
