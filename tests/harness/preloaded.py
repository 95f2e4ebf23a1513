"""Other packages that the commands import, for the process from which tests fork commands."""

import mlflow  # noqa: F401
import optuna  # noqa: F401
import pydantic  # noqa: F401
import rich.console  # noqa: F401
import scipy.stats  # noqa: F401
import sklearn.gaussian_process  # noqa: F401
import torch
import typer  # noqa: F401

torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # any optimiser imports PyTorch's compiler
