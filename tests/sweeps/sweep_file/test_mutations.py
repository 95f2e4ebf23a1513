"""A thousand mutated sweep files: `calsweep check` reports the error, or they are valid."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.cli import main
from sweeps.commands.running import check
from sweeps.errors import UserError

FILES = (
    """\
name: birds
dataset: {name: parquet, train: /data/train.parquet, test: /data/test.parquet, label: label}
model: {name: resnet18_cifar}
losses:
  - focal
  - &narrow
    name: dual_focal
    space: {gamma: {low: 1, high: 8, log: true}}
  - <<: *narrow
    name: inverse_focal
  - {name: mbls, hyperparameters: {margin: 6.0, lam: 0.1}}
  - {name: label_smoothing, space: {alpha: {choices: [0.01, 0.1]}}}
training: &recipe {epochs: 10, batch_size: 128, lr: 0.05}
search: {trials: 20, seed: 0, objective: val_ece, guard: 0.01}
""",
    """\
name: digits
dataset: digits
model: {name: small_cnn}
losses: [cross_entropy]
encoder:
  loss: {name: supcon, hyperparameters: {temperature: 0.1}}
  training: &recipe {epochs: 10}
training:
  <<: *recipe
  momentum: 0.9
  schedule: step
  milestones: [0.5, 0.75]
  clip_grad_norm: null
search: {sampler: tpe, max_hours: 2.5, learn_from: [old]}
scheduler: {name: asha, metric: val_nll, grace_period: 3, reduction_factor: 3}
scaling: {num_workers: 2, cpus_per_worker: 1, gpus_per_worker: 0, max_concurrent: 4}
selection: {finalists: 2, seeds: 2}
tracking: {uri: "http://127.0.0.1:5000"}
""",
)

VALUES = """\
-1|0|1|2|1e-7|1e30|1e308|1e999|-1e308|.nan|.inf|-.inf|9223372036854775807|9223372036854775808
0xFFFFFFFFFFFFFFFFFFFFFFFF|0b|0x_|0o|1_000|1:30|017|4294967296|2147483648|1000001|0.1|-0.0|+.5
true|yes|~|null|""|''|"\\0"|"\\e[31m"|text|ääh 漢字|[/data/x]|[bold]x[/bold]|2020-01-01|12:30:00|<<
[]|{}|[1, 2]|[[[]]]|{a: 1}|{name: }|{name: focal, name: focal}|[focal, focal]|[~]|{? [1]: 2}|{1: 2}
*recipe|*narrow|*nowhere|&own [*own]|&own {x: *own}|&own {<<: *own}|{<<: 3}|{<<: [*recipe, *narrow]}
{<<: }|{"<<": *recipe}|!!bool perhaps|!!int x|!!int 5|!!float 3|!!null x|!!str 3|!!omap [a: 1]
!!pairs [a: 1]|!!set {a, b}|!!binary "!"|!!binary aGk=|!!timestamp x|!!merge x|!!map []|!!seq {}
!!python/object/apply:os.system ["exit 9"]|!!python/name:os.system|!own 3|!own [1]|!own {a: 1}|! x
!<tag:yaml.org,2002:int> y|!|&a|*|@|`|%|"|'|[|]|{|}|,|>|\\||- -|? ?|: :|# x|os:system|x:y|:|timm/
=|../x
""".replace("\n", "|").split("|")
VALUES = [*VALUES, "0x" + "f" * 5000, "9" * 5000, "x" * 5000, "[" * 400, "{a: " * 200, "|\n  x"]


def _lines(text: str, change: Callable[[list[str]], None]) -> str:
    lines = text.split("\n")
    change(lines)
    return "\n".join(lines)


def _replaced_value(text: str, rng: random.Random) -> str:
    """Replaces one value after a colon."""
    places = [i for i, character in enumerate(text) if character == ":" and text[i + 1] in " \n"]
    start = rng.choice(places) + 1
    end = min(text.find(mark, start) % len(text) for mark in ",}\n")
    return f"{text[:start]} {rng.choice(VALUES)}{text[end:]}"


def _inserted(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text))
    return text[:place] + rng.choice(VALUES) + text[place:]


def _spoilt_character(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text))
    return (
        text[:place]
        + rng.choice("\0\t\n\r :-[]{},&*!|>'\"%@`#?\x1b\x85\ufeff\u2028é0a")
        + text[place + 1 :]
    )


def _cut(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text))
    return text[:start] + text[start + rng.randrange(1, 40) :]


def _doubled_line(text: str, rng: random.Random) -> str:
    return _lines(text, lambda lines: lines.insert(rng.randrange(len(lines)), rng.choice(lines)))


def _swapped_lines(text: str, rng: random.Random) -> str:
    def swap(lines: list[str]) -> None:
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]

    return _lines(text, swap)


def _indented(text: str, rng: random.Random) -> str:
    def indent(lines: list[str]) -> None:
        i = rng.randrange(len(lines))
        lines[i] = rng.choice([" ", "  ", "\t", "- ", "  - "]) + lines[i].lstrip()

    return _lines(text, indent)


def _new_line(text: str, rng: random.Random) -> str:
    key = rng.choice(
        ["", "x: ", "epochs: ", "name: ", "  name: ", "<<: ", "training: ", "? ", "- "]
    )
    line = key + rng.choice([*VALUES, "---", "...", "%YAML 1.1", "%TAG ! tag:x:"])
    return _lines(text, lambda lines: lines.insert(rng.randrange(len(lines)), line))


MUTATIONS = (_replaced_value,) * 6 + (
    _inserted,
    _spoilt_character,
    _cut,
    _doubled_line,
    _swapped_lines,
    _indented,
    _new_line,
)


def test_a_mutated_file_is_reported_or_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sweep.yaml"
    for text in FILES:
        path.write_text(text)
        check(str(path), no_data=True)
    rng = random.Random(14)
    refused, count = 0, 250
    for number in range(count):
        text = rng.choice(FILES)
        for _ in range(rng.choice([1, 1, 1, 2])):
            text = rng.choice(MUTATIONS)(text, rng)
        path.write_bytes(text.encode())
        try:
            check(str(path), no_data=True)
        except UserError as error:
            refused += 1
            message = str(error)
            assert message.replace("\n", "").isprintable(), f"mutation {number}: {message!r}"
            assert all(len(line) < 1000 for line in message.splitlines()), message
        except BaseException as error:
            error.add_note(f"mutation {number}:\n{text[:3000]}")
            raise
    assert 0.7 * count < refused < count


def test_a_reported_file_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("!!omap\n- name: birds\n")
    monkeypatch.setattr(sys, "argv", ["calsweep", "check", str(path), "--no-data"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"calsweep: {path}, line 1: the tag !!omap is not allowed; allowed: values without tags\n"
    )
