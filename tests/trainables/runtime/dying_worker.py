"""One of two workers of ``test_internals``: ``python dying_worker.py RANK FOLDER``.

The second ends while the first waits for it, which writes down what it makes of the error.
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed

from trainables.runtime.torch_internals import lost_a_peer


def main(number: int, folder: Path) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=number, world_size=2
    )
    distributed.all_reduce(torch.ones(1))
    if number == 1:
        os._exit(0)
    try:
        distributed.all_reduce(torch.ones(1))
    except Exception as error:
        torch.save({"lost a peer": lost_a_peer(error), "error": str(error)}, folder / "0.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
