"""Other packages that the commands import, for the process from which tests fork commands."""

import cryptography.x509  # noqa: F401
import fsspec  # noqa: F401
import jinja2  # noqa: F401
import mlflow.pyfunc
import mlflow.store.model_registry.sqlalchemy_store
import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
import optuna  # noqa: F401
import PIL.Image  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pydantic  # noqa: F401
import rich.console  # noqa: F401
import ruamel.yaml  # noqa: F401
import scipy.stats  # noqa: F401
import sklearn.gaussian_process
import sklearn.linear_model  # noqa: F401
import torch
import torch.export.pt2_archive._package
import typer  # noqa: F401

torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # any optimiser imports PyTorch's compiler
