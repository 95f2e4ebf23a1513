"""Other packages that the commands import, for the process from which tests fork commands."""

import gc
from importlib import import_module

MODULES = (
    "cryptography.x509",
    "fsspec",
    "jinja2",
    "mlflow.pyfunc",
    "mlflow.store.model_registry.sqlalchemy_store",
    "mlflow.store.tracking.sqlalchemy_store",
    "optuna",
    "PIL.Image",
    "pyarrow.parquet",
    "pydantic",
    "rich.console",
    "ruamel.yaml",
    "scipy.stats",
    "sklearn.gaussian_process",
    "sklearn.linear_model",
    "torch",
    "torch._dynamo",  # any optimiser imports it
    "torch.export.pt2_archive._package",
    "typer",
)

gc.disable()  # it takes a fifth of the time, and finds nothing
for name in MODULES:
    import_module(name)
gc.enable()
