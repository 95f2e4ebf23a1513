"""Predicts the temperature, the error and so the objective of a setting.

A network's fitted temperature T says in which direction its confidence is wrong, and how far. For a
setting s, log(T_s / T_CE) is similar on all datasets, where T_CE is cross-entropy's temperature. So
the baseline's temperature, records of other datasets and the trials so far predict log T_s. The
objective is linear in how much T changes the confidence (in the square of log T for NLL and Brier
score), plus a residual. The error is predicted like log T, for the guard.
``python -m benchmarks.tabular.coverage`` shows how often predictions hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtr

from sweeps.search.record import TrialRecord
from sweeps.search.recorded import RecordedSetting
from sweeps.search.rules import Rule
from sweeps.search.setting_models import (
    REFERENCE,
    Array,
    Guess,
    Observed,
    Places,
    SettingKernel,
    posterior,
    rows_of,
)
from trainables.contract.metric_names import MetricName
from trainables.contract.setting import BASELINE, Setting

# Standard deviations with the highest likelihood on digits, Fashion-MNIST and CIFAR-10, each
# predicted from the other two.
_RATIO_PRIOR: Final = SettingKernel(offset=0.3, slope=1.0, local=0.3)
# Those of this dataset are wider than the most likely ones, so that predictions of the objective
# cover on each of six datasets, predicted from the others.
_RATIO_HERE: Final = SettingKernel(common=0.64, scale=0.45, offset=0.08, slope=0.32, local=0.32)
_RATIO_NOISE: Final = 0.1  # between datasets
_ERROR_PRIOR: Final = SettingKernel(offset=0.1, slope=0.1, local=0.1)
_ERROR_HERE: Final = SettingKernel(common=1.0, scale=0.45, offset=0.05, local=0.02)
_ERROR_NOISE: Final = 0.06  # between datasets
_SIMILAR: Final = 1.0  # difference of cross-entropy's error, in log-odds, up to which it is alike
_LEAST_SIMILARITY: Final = 0.05
_OBJECTIVE: Final = SettingKernel(scale=0.6, offset=0.15, local=0.1)
_OF_SHIFT: Final = 0.8  # calibration error, as a share of the shift of a typical confidence
_LEAST_LOG_T: Final = 0.15  # of cross-entropy, from which the objective's slope is estimated

_LEAST_NOISE: Final = 0.03  # of a measured log T over seeds
_EARLY_NOISE: Final = 0.15  # of a log ratio that was measured before the last epoch
_USUAL_LOG_T: Final = 0.3  # of cross-entropy
_USUAL_ERROR: Final = 0.2
_USUAL_OBJECTIVE: Final = 0.1
_LEAST_ERROR: Final = 1e-3
_MOST_ERROR_RATIO: Final = 0.3  # a failed network does not inform about its neighbours
_MOST_ERROR: Final = 0.95  # as a share of the error of guessing
_MOST_LOG_T: Final = 5.0
_95_PERCENT: Final = 2 * 1.96  # width of an interval in standard deviations


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
"""Nodes and weights of Gauss–Hermite quadrature, for a standard normal variable."""
_WEIGHTS /= math.sqrt(2 * math.pi)


class Baseline:
    """The results of the cross-entropy baseline; usual values before it has finished.

    Attributes:
        level: The objective after temperature scaling, or the objective where that is lower.
        error_noise: Standard deviation of the error.
        noise: Standard deviation of the objective over samples, plus a twentieth of the objective
            for seeds.
    """

    def __init__(self, records: Sequence[TrialRecord], objective: MetricName) -> None:
        found = [r for r in records if r.role == "baseline" and r.state == "finished"]
        history = [entry for r in found for entry in r.history if entry.get("temperature", 0) > 0]
        last: Mapping[str, float] = history[-1] if history else {}
        self._history = {int(entry["epoch"]): entry for entry in history}
        self.finished = bool(history)
        self.log_t = math.log(last["temperature"]) if history else _USUAL_LOG_T
        self.error = max(last.get("val_error", _USUAL_ERROR), _LEAST_ERROR)
        self.objective = last.get(str(objective), _USUAL_OBJECTIVE)
        self.level = min(self.objective, last.get(f"{objective}_scaled", self.objective / 5))
        self.error_noise = _sd(last, MetricName("error", "val")) or 0.01
        noise = _sd(last, objective) or 0.15 * self.level + 0.002
        self.noise = math.hypot(noise, 0.05 * self.objective)

    def after(self, epoch: int) -> Mapping[str, float] | None:
        """Its metrics after an epoch; None if its temperature was not fitted there."""
        return self._history.get(epoch)

    def similarity(self, earlier: RecordedSetting) -> float:
        """How similar a setting's dataset is: more where cross-entropy's errors are alike.

        ``python -m benchmarks.tabular.temperatures`` shows how much better it predicts.
        """
        if not self.finished or earlier.baseline_error is None:
            return 1.0
        difference = _log_odds(self.error) - _log_odds(earlier.baseline_error)
        return _LEAST_SIMILARITY + math.exp(-((difference / _SIMILAR) ** 2) / 2)

    @property
    def temperature_noise(self) -> float:
        """Standard deviation of a measured log T, given the number of wrong predictions."""
        if not self.finished:
            return 10.0
        samples = self.error * (1 - self.error) / self.error_noise**2
        return max(_LEAST_NOISE, 0.35 / math.sqrt(max(samples * self.error, 1.0)))


@dataclass(frozen=True)
class Belief:
    """The prediction for S settings.

    Attributes:
        log_t: Distribution of log T.
        in_guard: Probability that the true error respects the guard, (S,).
        places: The encoded settings, (S, width).
    """

    log_t: Guess
    in_guard: Array
    places: Array


class TemperatureModel:
    """The three Gaussian processes, given the trials so far, including running ones."""

    def __init__(
        self,
        places: Places,
        rule: Rule,
        earlier: Sequence[RecordedSetting],
        records: Sequence[TrialRecord],
        num_classes: int,
    ) -> None:
        self._places = places
        self._rule = rule
        self._num_classes = num_classes
        self._objective = MetricName.parse(rule.objective)
        self._earlier = earlier
        self.baseline = Baseline(records, self._objective)
        similar = np.array([self.baseline.similarity(each) for each in earlier])
        self._weights = np.array([e.weight for e in earlier]) * similar / similar.max(initial=0.0)
        self._observe(records)

    def _observe(self, records: Sequence[TrialRecord]) -> None:
        """The results of the trials with a temperature, relative to the baseline."""
        self._settings: list[Setting] = []
        rows: list[tuple[float, float, float, bool]] = []
        for record in records:
            entry, base = record.outcome, self.baseline.after(record.epochs)
            if base is None or not self._places.knows(record.setting):
                continue
            if not entry.get("temperature", 0) > 0:
                continue
            done = record.state == "finished"
            error = entry["val_error"] / max(base["val_error"], _LEAST_ERROR) - 1
            self._settings.append(record.setting)
            rows.append(
                (
                    math.log(entry["temperature"] / base["temperature"]),
                    min(error, _MOST_ERROR_RATIO),
                    entry.get(str(self._objective), math.nan) if done else math.nan,
                    done,
                )
            )
        columns = np.array(rows, dtype=float).reshape(-1, 4).T
        self._ratios, self._errors, self._objectives, done_ = columns
        self._done = done_ == 1

    def knows(self, setting: Setting) -> bool:
        return self._places.knows(setting)

    def belief(self, settings: Sequence[Setting]) -> Belief:
        return Belief(self._log_t(settings), self._in_guard(settings), self._places(settings))

    def objective(self, belief: Belief) -> Guess:
        """The predicted objective of settings, given the uncertainty of their temperature."""
        level, slope, feature = self.baseline.level, self._slope, self._feature(belief.log_t)
        rest = self._rest(belief.places, feature.mean)
        mean = level + slope * feature.mean + rest.mean
        return Guess(mean, np.hypot(rest.sd, slope * feature.sd))

    def gain(self, belief: Belief, best: float) -> Array:
        """The expected improvement of each setting on the best objective so far, (S,).

        The expectation is over log T, by Gauss–Hermite quadrature, and over the residual. A setting
        that breaks the guard gains nothing.
        """
        found = np.zeros(len(belief.places))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            log_t = belief.log_t.mean + node * belief.log_t.sd
            known = Belief(Guess(log_t, np.zeros_like(log_t)), belief.in_guard, belief.places)
            objective = self.objective(known)
            found += weight * _expected_excess(best - objective.mean, objective.sd)
        return found * belief.in_guard

    def _log_t(self, settings: Sequence[Setting]) -> Guess:
        """The distribution of log T; every trial informs about the noisy baseline."""
        both = [*self._settings, *settings]
        prior = self._prior(_RATIO_PRIOR, _RATIO_NOISE, [e.log_ratio for e in self._earlier], both)
        rows = rows_of(self._places(both), prior.mean, prior.sd)
        reference = rows_of(self._reference)
        count, noise = len(self._settings), self.baseline.temperature_noise
        differences = self._ratios - prior.mean[:count]
        early = np.where(self._done, noise, math.hypot(noise, _EARLY_NOISE))
        found = posterior(
            _RATIO_HERE,
            Observed(
                np.concatenate([reference, rows[:count]]),
                np.concatenate([[0.0], differences]) + self.baseline.log_t - _USUAL_LOG_T,
                np.concatenate([[noise], early]) ** 2,
            ),
            rows[count:],
        )
        return Guess(found.mean + prior.mean[count:] + _USUAL_LOG_T, found.sd)

    def _in_guard(self, settings: Sequence[Setting]) -> Array:
        """The probability of respecting the guard, given the noise of the baseline's error.

        If all other errors are higher, the baseline's was probably too low. So a setting's error is
        compared with the estimate of the baseline's error from all trials.
        """
        both = [*self._settings, *settings]
        ratios = [min(e.error_ratio, _MOST_ERROR_RATIO) for e in self._earlier]
        prior = self._prior(_ERROR_PRIOR, _ERROR_NOISE, ratios, both)
        rows = rows_of(self._places(both), prior.mean, prior.sd)
        count, reference = len(self._settings), rows_of(self._reference)
        noise = np.full(1 + count, self.baseline.error_noise / self.baseline.error)
        differences = self._errors - prior.mean[:count]
        found = posterior(
            _ERROR_HERE,
            Observed(
                np.concatenate([reference, rows[:count]]),
                np.concatenate([[0.0], differences]),
                noise**2,
            ),
            rows[count:],
            reference,
        )
        allowed = self._rule.guard / self.baseline.error
        chance: Array = ndtr((allowed - found.mean - prior.mean[count:]) / found.sd)
        return chance

    def _prior(
        self, kernel: SettingKernel, noise: float, values: list[float], settings: list[Setting]
    ) -> Guess:
        known = [e.setting for e in self._earlier]
        variances = noise**2 / self._weights
        rows, wanted = (rows_of(self._places(each)) for each in (known, settings))
        return posterior(kernel, Observed(rows, np.array(values), variances), wanted)

    def _rest(self, places: Array, feature: Array) -> Guess:
        """The residual of the objective, for settings with these features."""
        finite = np.isfinite(self._objectives)
        settings = [s for s, known in zip(self._settings, finite, strict=True) if known]
        log_t = np.array([0.0, *self._ratios[finite]]) + self.baseline.log_t  # baseline first
        values = np.array([self.baseline.objective, *self._objectives[finite]])
        known = self._feature(Guess(log_t, np.zeros_like(log_t))).mean
        level, slope, unit = self.baseline.level, self._slope, self.baseline.objective
        observed = np.concatenate([self._reference, self._places(settings)])
        found = posterior(
            _OBJECTIVE,
            Observed(
                rows_of(observed, known * slope / unit),
                (values - level - slope * known) / unit,
                np.full(len(values), (self.baseline.noise / unit) ** 2),
            ),
            rows_of(places, feature * slope / unit),
        )
        return Guess(unit * found.mean, unit * found.sd)

    @property
    def _reference(self) -> Array:
        found = np.zeros((1, self._places.width))
        found[0, 0] = REFERENCE
        return found

    @property
    def _is_calibration_error(self) -> bool:
        return self._objective.metric.endswith("ece")

    @property
    def _slope(self) -> float:
        """The assumed slope of the objective over the feature, before trials show it."""
        error, log_t = self.baseline.error, abs(self.baseline.log_t)
        usual = _OF_SHIFT if self._is_calibration_error else (0.02 + 1.2 * error * (1 - error)) / 2
        if log_t < _LEAST_LOG_T:
            return usual
        feature = float(self._shift(np.array(self.baseline.log_t)))
        slope = max(usual / 4, (self.baseline.objective - self.baseline.level) / feature)
        return min(slope, 1.0) if self._is_calibration_error else slope

    def _feature(self, log_t: Guess) -> Guess:
        """What the objective is linear in, for a distribution of log T."""
        values = self._shift(log_t.mean[:, None] + log_t.sd[:, None] * _NODES)
        mean: Array = values @ _WEIGHTS
        return Guess(mean, np.sqrt(np.maximum(np.square(values) @ _WEIGHTS - mean**2, 0.0)))

    def _shift(self, log_t: Array) -> Array:
        """How far T moves a typical confidence from the accuracy; for other objectives, log² T.

        A calibrated network with error e has the logits (m, 0, ..., 0), whose largest probability
        is 1 − e. One whose fitted temperature is T has T times these logits. So an overconfident
        network is off by at most e, an underconfident one by much more if e is small.
        """
        if not self._is_calibration_error:
            return np.square(log_t)
        others = self._num_classes - 1
        error = min(self.baseline.error, _MOST_ERROR * others / self._num_classes)
        margin = math.log((1 - error) * others / error)
        scale = np.exp(np.clip(log_t, -_MOST_LOG_T, _MOST_LOG_T))
        shift: Array = np.abs(1 / (1 + others * np.exp(-scale * margin)) - (1 - error))
        return shift


def expected_objectives(
    model: TemperatureModel, settings: Sequence[Setting]
) -> dict[Setting, float]:
    """Expected objectives of settings that can be encoded: p · theirs + (1 − p) · the baseline's.

    p is the probability that a setting respects the guard. If it breaks the guard, the baseline is
    selected.
    """
    known = [s for s in dict.fromkeys(settings) if model.knows(s)]
    expected = {BASELINE: model.baseline.objective}
    if known:
        belief = model.belief(known)
        own = model.objective(belief).mean
        without = np.maximum(own, model.baseline.objective)
        mixed = belief.in_guard * own + (1 - belief.in_guard) * without
        expected |= dict(zip(known, mixed.tolist(), strict=True))
    return expected


def _log_odds(error: float) -> float:
    error = min(max(error, _LEAST_ERROR), 1 - _LEAST_ERROR)
    return math.log(error / (1 - error))


def _sd(entry: Mapping[str, float], metric: MetricName) -> float | None:
    """Standard deviation of a metric, from its interval or from the range of a calibrated model."""
    half = entry.get(metric.with_statistic("high"), math.nan)
    half -= entry.get(metric.with_statistic("low"), math.nan)
    if math.isnan(half):
        half = 2 * entry.get(metric.with_statistic("calibrated_high"), math.nan)
        half -= 2 * entry.get(metric.with_statistic("calibrated"), math.nan)
    return half / _95_PERCENT if half > 0 else None


def _expected_excess(mean: Array, sd: Array) -> Array:
    """E max(X, 0) for a normal X."""
    sd = np.maximum(sd, 1e-12)
    density = np.exp(-np.square(mean / sd) / 2) / math.sqrt(2 * math.pi)
    found: Array = mean * ndtr(mean / sd) + sd * density
    return found
