"""``--compare`` and ``--seeds``: the resulting sweep file."""

import pytest

from sweeps.errors import UserError
from sweeps.sweep_file.loading import with_comparison
from tests.builders import make_sweep


def test_it_searches_these_losses_as_the_file_says_and_trains_each_again() -> None:
    focal = {"name": "focal", "space": {"gamma": {"low": 1, "high": 2}}}
    sweep = make_sweep(losses=[focal, "mbls", "brier"])
    found = with_comparison(sweep, "dual_focal, focal,cross_entropy", 5)
    assert [loss.name for loss in found.losses] == ["dual_focal", "focal"]
    assert found.losses[1] == sweep.losses[0]
    assert found.selection.per_loss
    assert (found.selection.finalists, found.selection.seeds) == (2, 5)
    assert found.search == sweep.search


@pytest.mark.parametrize(("asked", "seeds"), [(None, 3), (5, 5)])
def test_seeds_of_a_file_that_says_auto_become_a_number(asked: int | None, seeds: int) -> None:
    sweep = make_sweep(selection={"seeds": "auto"})
    assert with_comparison(sweep, "focal", asked).selection.seeds == seeds


def test_without_options_nothing_changes() -> None:
    sweep = make_sweep()
    assert with_comparison(sweep, None, None) is sweep
    assert with_comparison(sweep, None, 4).selection.seeds == 4


@pytest.mark.parametrize("losses", [" , ", "cross_entropy"])
def test_a_list_without_a_loss_to_search_is_refused(losses: str) -> None:
    with pytest.raises(UserError, match=f"compare: found '{losses}'; allowed: one loss or more"):
        with_comparison(make_sweep(), losses, None)
