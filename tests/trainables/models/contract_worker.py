"""One of two workers of ``test_contract``: ``python contract_worker.py RANK FOLDER``.

Each trains three steps of every model, data-parallel, and saves the weights.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from tests.trainables.models.contract import NAMES, subject
from trainables.contract.config import TrainingConfig
from trainables.engine.training import Trainer
from trainables.losses import make_loss


def trained(name: str) -> dict[str, Any]:
    dataset, model = subject(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    config = TrainingConfig(epochs=1, batch_size=4, lr=0.1, sync_batch_norm=True)
    loss = make_loss("cross_entropy", num_classes=2)
    trainer = Trainer(model, loss, dataset, config, seed=1, device=torch.device("cpu"))
    try:
        trainer.train_epoch()
        trainer.predict(dataset.test)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    weights = dict(model.state_dict())
    changed = any(not torch.equal(value, before[key]) for key, value in weights.items())
    return {"error": None, "weights": weights, "changed": changed}


def main(number: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=number, world_size=2
    )
    torch.save({name: trained(name) for name in NAMES}, folder / f"worker{number}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
