"""Trains through a dataset in a process that may hold so many bytes more than it does at rest.

Called by test_streaming: FOLDER STORAGE BYTES. Prints the error on the test split.
"""

import re
import resource
import sys
import threading
from pathlib import Path

from torch import nn

from trainables.contract.config import TrainingConfig
from trainables.data import load_dataset
from trainables.engine.training import Trainer
from trainables.losses import make_loss
from trainables.models import Classifier

folder, storage, limit = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
threading.stack_size(2**19)


def train(name: str, storage: str) -> float:
    data = load_dataset(
        "parquet", seed=0, train=folder / f"{name}.parquet", storage=storage, cache=folder
    )
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten())
    config = TrainingConfig(epochs=1, batch_size=4, eval_batch_size=4, lr=0.01)
    loss = make_loss("cross_entropy", 3)
    model = Classifier(pooled, nn.Linear(48, 3))
    trainer = Trainer(model, loss, data, config, seed=0, device=next(model.parameters()).device)
    trainer.train_epoch()
    logits, labels = trainer.predict(data.test)
    return float((logits.argmax(1) != labels).double().mean())


train("small", storage)  # warm-up: imports and setup do not count as data
found = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
assert found is not None
held = int(found[1]) * 1024 + limit
resource.setrlimit(resource.RLIMIT_DATA, (held, held))
print(train("large", storage))
