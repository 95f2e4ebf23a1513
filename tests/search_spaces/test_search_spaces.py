"""Search spaces match the losses."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    check_distribution_compatibility,
    distribution_to_json,
    json_to_distribution,
)

import search_spaces
from search_spaces import available_search_spaces, published_settings, search_space
from trainables.losses import available_losses, hyperparameters, make_loss


def test_every_loss_has_a_space() -> None:
    assert available_search_spaces() == available_losses()


@pytest.mark.parametrize("loss", available_search_spaces())
def test_searches_hyperparameters_of_the_loss(loss: str) -> None:
    assert search_space(loss).keys() <= hyperparameters(loss).keys()


@pytest.mark.parametrize("loss", available_search_spaces())
def test_the_loss_takes_both_ends_of_each_range(loss: str) -> None:
    for name, distribution in search_space(loss).items():
        if isinstance(distribution, CategoricalDistribution):
            ends = list(distribution.choices)
        else:
            assert isinstance(distribution, (FloatDistribution, IntDistribution))
            ends = [distribution.low, distribution.high]
        for value in ends:
            make_loss(loss, 10, **{name: value})


@pytest.mark.parametrize("loss", available_search_spaces())
def test_published_settings_are_complete_allowed_and_different(loss: str) -> None:
    space = search_space(loss)
    for num_classes in (None, 2, 10, 100, 1000):
        settings = published_settings(loss, num_classes)
        assert settings, num_classes
        for setting in settings:
            assert setting.keys() == space.keys()
            make_loss(loss, num_classes or 10, **setting)
            for name, distribution in space.items():
                assert distribution._contains(distribution.to_internal_repr(setting[name]))
            assert settings.count(setting) == 1


@pytest.mark.parametrize("loss", available_search_spaces())
def test_the_default_is_tried_first(loss: str) -> None:
    defaults = hyperparameters(loss)
    expected = {name: defaults[name] for name in search_space(loss)}
    assert published_settings(loss)[0] == expected


@pytest.mark.parametrize("loss", available_search_spaces())
def test_distributions_survive_json(loss: str) -> None:
    for distribution in search_space(loss).values():
        restored = json_to_distribution(distribution_to_json(distribution))
        check_distribution_compatibility(distribution, restored)
        assert restored == distribution


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("cross_entropy", {}),
        ("brier", {}),
        ("label_smoothing", {"alpha": FloatDistribution(0.005, 0.3, log=True)}),
        ("focal", {"gamma": FloatDistribution(0, 10)}),
        ("inverse_focal", {"gamma": FloatDistribution(0.5, 3.5)}),
        ("dual_focal", {"gamma": FloatDistribution(0, 10)}),
        (
            "mbls",
            {
                "margin": FloatDistribution(1, 20),
                "lam": FloatDistribution(0.01, 1, log=True),
            },
        ),
        (
            "r_aurc",
            {
                "lam": FloatDistribution(0, 1),
                "epsilon": FloatDistribution(0.005, 0.2, log=True),
                "confidence": CategoricalDistribution(
                    ("max_probability", "margin", "negative_entropy")
                ),
            },
        ),
        (
            "cals_alm",
            {
                "margin": FloatDistribution(1, 20),
                "rho": FloatDistribution(0.1, 10, log=True),
                "growth": FloatDistribution(1.05, 2),
            },
        ),
    ],
)
def test_ranges(loss: str, expected: dict[str, Any]) -> None:
    assert search_space(loss) == expected


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("cross_entropy", [{}]),
        ("focal", [{"gamma": gamma} for gamma in (3, 1, 2, 5)]),
        ("inverse_focal", [{"gamma": gamma} for gamma in (2, 1, 1.5, 3)]),
        ("dual_focal", [{"gamma": gamma} for gamma in (5, 4.5, 2.6, 4, 6.1, 3.9, 2.3)]),
        (
            "focal_calibration",
            [
                {"gamma": gamma, "lam": lam}
                for gamma, lam in ((3, 0.5), (2, 0.5), (4, 1.5), (5, 4.5), (4, 3), (4, 4))
            ],
        ),
    ],
)
def test_published(loss: str, expected: list[dict[str, float]]) -> None:
    assert published_settings(loss) == expected


def test_the_number_of_classes_determines_the_first_published_setting() -> None:
    few, many = published_settings("r_aurc", 10), published_settings("r_aurc", 100)
    assert few[0]["epsilon"] == 0.05
    assert many[0]["epsilon"] == 0.01
    assert sorted(map(str, few)) == sorted(map(str, many))
    texts = published_settings("focal_calibration", 20)  # 20 Newsgroups
    assert texts[0] == {"gamma": 5, "lam": 4.5}
    assert sorted(map(str, texts)) == sorted(map(str, published_settings("focal_calibration")))


def test_results_are_copies() -> None:
    search_space("focal").clear()
    published_settings("focal")[0]["gamma"] = -1
    assert list(search_space("focal")) == ["gamma"]
    assert published_settings("focal")[0] == {"gamma": 3}


def test_unknown_loss() -> None:
    with pytest.raises(ValueError, match=r"for loss 'focul' \(did you mean 'focal'\?\); there are"):
        search_space("focul")
    with pytest.raises(ValueError, match="no search space for loss 'xyz'; there are: ada"):
        published_settings("xyz")


def test_installed_packages_may_add_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("somebodys_space")
    module.SPACE = {"factor": FloatDistribution(1, 2)}  # type: ignore[attr-defined]
    module.PUBLISHED = [{"factor": 1.5}]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "somebodys_space", module)

    def entry_points(group: str) -> list[EntryPoint]:
        assert group == "calsweep.search_spaces"
        return [
            EntryPoint("doubled", "somebodys_space", group),
            EntryPoint("broken", "nowhere", group),
            EntryPoint("wrong", "json", group),
        ]

    monkeypatch.setattr(search_spaces, "entry_points", entry_points)
    search_spaces._modules.cache_clear()
    try:
        assert search_space("doubled") == {"factor": FloatDistribution(1, 2)}
        assert published_settings("doubled") == [{"factor": 1.5}]
        assert "doubled" in available_search_spaces()
        assert "focal" in available_search_spaces()
        with pytest.raises(ValueError, match=r"loss 'broken' cannot be imported: .*'nowhere'"):
            search_space("broken")
        with pytest.raises(ValueError, match=r"loss 'wrong', json, must have SPACE, and PUBLISHED"):
            search_space("wrong")
    finally:
        search_spaces._modules.cache_clear()


def test_needs_neither_torch_nor_ray() -> None:
    code = (
        "import sys, search_spaces as s; "
        "[s.published_settings(loss) for loss in s.available_search_spaces()]; "
        "print(*{'torch', 'ray', 'mlflow'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
