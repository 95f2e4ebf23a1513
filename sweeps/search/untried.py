"""A loss that a sweep names and has not tried."""

import math
from dataclasses import dataclass

from trainables.contract.setting import Setting


@dataclass(frozen=True)
class Untried:
    """A loss that was not tried: its most promising setting, and the objective expected of it.

    NaN if nothing is expected; the setting then has no hyperparameters.
    """

    setting: Setting
    expected: float = math.nan
