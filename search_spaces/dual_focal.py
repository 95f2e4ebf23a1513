"""Dual focal loss (Tao et al. 2023): settings for CIFAR-10, CIFAR-100 and Tiny-ImageNet."""

from optuna.distributions import FloatDistribution

SPACE = {"gamma": FloatDistribution(0.0, 10.0)}
PUBLISHED = [{"gamma": gamma} for gamma in (5.0, 4.5, 2.6, 4.0, 6.1, 3.9, 2.3)]
