"""Errors in a sweep file: one message with the line, the key, the value and what is allowed."""

import re
from pathlib import Path

import pytest

from sweeps.errors import UserError
from sweeps.planning.checks import check_sweep
from sweeps.sweep_file.loading import (
    READY_MADE,
    describe_recipe,
    dump_sweep,
    load_sweep,
    ready_made_sweeps,
    recipes,
    to_yaml,
    with_comparison,
)
from trainables.engine.optimizers import learning_rate_factor

EXAMPLES = Path(__file__).parents[3] / "examples/real_data"

MINIMAL = """\
name: small
dataset: {name: digits}
model: {name: small_cnn}
losses: [focal, dual_focal]
"""


def load(folder: Path, text: str, *overrides: str, name: str | None = None) -> object:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return load_sweep(str(path), overrides, name)


def test_the_smallest_file_has_good_defaults(tmp_path: Path) -> None:
    sweep = load_sweep(str(_write(tmp_path, MINIMAL)))
    assert sweep.search.objective == "val_ece"
    assert sweep.scheduler.metric == "val_nll"
    assert sweep.selection.seeds > 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "training: {epoch: 3}",
            r"line 5: unknown key 'epoch' in training .did you mean 'epochs'",
        ),
        ("trainig: {epochs: 3}", r"line 5: unknown key 'trainig' \(did you mean 'training'"),
        ("training: {epochs: ten}", r"line 5: training.epochs = 'ten' .*allowed: a valid integer"),
        ("training: {epochs: '10'}", r"training.epochs = '10' is not allowed"),
        ("training: {epochs: 0}", r"training.epochs = 0 .*greater than 0"),
        ("training: {lr: .nan}", r"training.lr = nan .*finite"),
        ("training: {lr: -1.0}", r"training.lr = -1.0 .*greater than 0"),
        ("training: {optimizer: sdg}", r"training.optimizer = 'sdg' .*did you mean 'sgd'"),
        ("training: {nesterov: true, momentum: 0.0}", r"nesterov needs a momentum"),
        ("training: 3", r"training = 3 .*expected a mapping, with keys: epochs"),
        ("search: {guard: 2.0}", r"search.guard = 2.0 .*less than or equal to 1"),
        ("search: {seed: -1}", r"search.seed = -1 .*greater than or equal to 0"),
        ("name: again", r"line 5: not valid YAML: found duplicate key"),
        ("training: [1,", r"not valid YAML"),
    ],
)
def test_a_fault_is_reported_with_its_place(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(tmp_path, MINIMAL + line + "\n")


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ("[]", r"losses is empty"),
        ("focal", r"losses = 'focal' .*a list"),
        ("[focal, focal]", r"focal is named twice"),
        ("[{name: focal, space: {gamma: {low: 3, high: 1}}}]", r"gamma: low = 3.0 is above high"),
        ("[{name: focal, space: {gamma: {low: 3}}}]", r"give low and high, or choices"),
        ("[{name: focal, space: {gamma: {lo: 3, high: 4}}}]", r"unknown key 'lo' .*'low'"),
        ("[{name: mmce, space: {lam: {low: 0, high: 1, log: true}}}]", r"must be above 0"),
        ("[{name: focal, spaces: {}}]", r"unknown key 'spaces' .*did you mean 'space'"),
    ],
)
def test_a_fault_in_a_loss(tmp_path: Path, losses: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(tmp_path, MINIMAL.replace("[focal, dual_focal]", losses))


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, MINIMAL + "training: {epochs: 0, lr: x}\nsearch: {trials: 0}\n")
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"  \n", "the file is empty"),
        (b"\x89PNG\xff\xfe", "not a text file"),
        (b"- a\n- b\n", "a mapping of keys to values, found a list"),
        (b"name: x\n", "dataset is missing"),
    ],
)
def test_a_file_that_is_no_sweep_file(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        load_sweep(str(path))


def test_a_loss_has_its_usual_name_whatever_paper_it_is_from(tmp_path: Path) -> None:
    sweep = load(tmp_path, MINIMAL.replace("[focal, dual_focal]", "[FCL, {name: DFL}]"))
    assert [each.name for each in sweep.losses] == ["focal_calibration", "dual_focal"]
    assert with_comparison(sweep, "CE,LS", None).losses[0].name == "label_smoothing"


def test_a_replaced_value_is_not_blamed_on_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(MINIMAL)
    message = r"^set losses=.*: unknown key 'gamma' .*did you mean hyperparameters: {gamma: 3}"
    with pytest.raises(UserError, match=message):
        load_sweep(str(path), ["losses=[{name: focal, gamma: 3}]"])


def test_seeds_train_the_one_setting_of_a_file_again(tmp_path: Path) -> None:
    alone = load(tmp_path, MINIMAL + "selection: {finalists: 0, seeds: 0}\n")
    found = with_comparison(alone, None, 5).selection
    assert (found.finalists, found.seeds) == (1, 5)


def test_a_missing_file_names_the_ready_made_ones(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"did you mean 'quickstart'\?\); ready-made are: .*quickstart"
    ):
        load_sweep("quikstart")
    with pytest.raises(UserError, match="is a folder"):
        load_sweep(str(tmp_path))
    with pytest.raises(UserError, match=r"is a file of data.*`calsweep init --data a/birds.csv`"):
        load_sweep("a/birds.csv")


def test_overrides_and_name(tmp_path: Path) -> None:
    path = str(_write(tmp_path, MINIMAL))
    sweep = load_sweep(path, ["training.lr=1e-3", "losses=[mmce]", "dataset.seed_free=1"], "other")
    assert sweep.training.lr == 0.001
    assert [section.name for section in sweep.losses] == ["mmce"]
    assert sweep.dataset.options == {"seed_free": 1}
    assert sweep.name == "other"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.epochs", "write KEY=VALUE"),
        ("training.epochs=x", r"set training.epochs=x: training.epochs = 'x'"),
        ("training.lr.x=1", r"training.lr"),
        ("foo=1", "unknown key 'foo'"),
    ],
)
def test_bad_overrides(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(tmp_path, MINIMAL + "training: {lr: 0.1}\n", override)


def test_short_forms(tmp_path: Path) -> None:
    sweep = load_sweep(
        str(_write(tmp_path, "name: a\ndataset: digits\nmodel: small_cnn\nlosses: [focal]\n"))
    )
    assert sweep.dataset.name == "digits"
    assert sweep.losses[0].name == "focal"


def test_a_resolved_file_reads_as_the_same_sweep(tmp_path: Path) -> None:
    text = (
        MINIMAL + "training: {milestones: [0.5], clip_grad_norm: 1.0}\nscaling: {num_workers: 1}\n"
    )
    sweep = load_sweep(str(_write(tmp_path, text)))
    assert load_sweep(str(_write(tmp_path, dump_sweep(sweep)))) == sweep


@pytest.mark.parametrize("name", ready_made_sweeps())
def test_ready_made_sweeps_are_right(name: str) -> None:
    sweep = load_sweep(name)
    assert sweep.name == name
    check_sweep(sweep)


@pytest.mark.parametrize("name", recipes())
def test_recipes_are_right(name: str) -> None:
    sweep = load_sweep(name)
    assert sweep.name == name.removeprefix("recipes/")
    check_sweep(sweep)
    text = (READY_MADE / f"{name}.yaml").read_text()
    _, _, rest = text.partition("\n")  # the first line names the schema
    assert rest.startswith(f"# calsweep run {name}\n# {describe_recipe(name)}\n")
    for nets in re.findall(r"# Other nets of the paper: --set model=([^.(]*)", text):
        for net in re.split(", | or ", nets.strip()):
            check_sweep(load_sweep(name, [f"model={net}"]))
    short = text.split("# A short form: --set ")[1].splitlines()[0]
    assert sum(stage.recipe.epochs for stage in load_sweep(name, [short]).stages) <= 120


@pytest.mark.parametrize(
    ("name", "epochs", "lr", "drops"),
    [
        ("dual-focal-cifar10", 350, 0.1, [150, 250]),
        ("focal-calibration-cifar100", 350, 0.1, [150, 250]),
        ("dual-focal-tiny-imagenet", 100, 0.1, [40, 60]),
        ("cals-tiny-imagenet", 100, 0.1, [40, 60]),
        ("cals-20newsgroups", 100, 0.001, [50]),
        ("r-aurc-cifar10", 200, 0.01, [150]),
        ("r-aurc-tiny-imagenet", 100, 0.01, [40, 60]),
    ],
)
def test_learning_rates_drop_where_the_papers_say(
    name: str, epochs: int, lr: float, drops: list[int]
) -> None:
    config = load_sweep(f"recipes/{name}").training.config()
    assert (config.epochs, config.lr) == (epochs, lr)
    rates = [learning_rate_factor(config, epoch) for epoch in range(epochs)]
    found = [epoch for epoch in range(1, epochs) if rates[epoch] < rates[epoch - 1]]
    assert found == drops
    assert rates[-1] == pytest.approx(0.1 ** len(drops))


def test_a_recipe_is_found_by_a_name_that_is_nearly_right() -> None:
    with pytest.raises(UserError, match="did you mean 'recipes/cals-tiny-imagenet'"):
        load_sweep("recipes/cals-tiny-imagnet")


def test_to_yaml_keeps_the_order() -> None:
    assert to_yaml({"b": 1, "a": [1, 2]}).splitlines() == ["b: 1", "a:", "- 1", "- 2"]


def _write(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_sweep_files(path: Path) -> None:
    check_sweep(load_sweep(str(path)))
