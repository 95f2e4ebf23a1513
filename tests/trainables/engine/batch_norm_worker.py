"""One of two workers of ``test_batch_norm``: ``python batch_norm_worker.py RANK FOLDER``.

Each passes its uneven share of one batch through a net with synchronised batch norms, forwards and
backwards; rank 0 then passes the whole batch alone through the net as it was.
"""

import sys
from pathlib import Path

import torch
from timm.layers import BatchNormAct2d
from torch import Tensor, distributed, nn

from trainables.engine.batch_norm import synchronised
from trainables.runtime.distributed import rank

SHARES = (7, 4)


def without_bias(layer: nn.BatchNorm2d) -> nn.BatchNorm2d:
    """Like ``BatchNorm2d(bias=False)`` of newer versions of torch."""
    layer.register_parameter("bias", None)
    torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
    return layer


NETS = {
    "plain": lambda: nn.BatchNorm2d(3),
    "without bias": lambda: without_bias(nn.BatchNorm2d(3)),
    "with activation": lambda: BatchNormAct2d(3, act_layer=nn.ReLU),
    "with parameters": lambda: BatchNormAct2d(3, act_layer=nn.PReLU, momentum=None),
}


def net(kind: str) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3), NETS[kind](), nn.Conv2d(3, 3, 1), NETS[kind]())


def passed(model: nn.Module, images: Tensor, weight: Tensor, bfloat16: bool) -> dict[str, Tensor]:
    """Training output, gradients, state, and evaluation output."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        out = model(images)
        torch.autograd.backward((out.float() * weight).sum() / 100)
    gradients = {f"gradient of {name}": p.grad.clone() for name, p in model.named_parameters()}
    return {
        "out": out.detach().float(),
        **gradients,
        **{name: value.clone() for name, value in model.state_dict().items()},
        "evaluated": model.eval()(images).detach(),
    }


def main(number: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=number, world_size=2
    )
    draw = torch.Generator().manual_seed(1)
    images = torch.randn(sum(SHARES), 2, 6, 5, generator=draw)
    weight = torch.randn(sum(SHARES), 3, 4, 3, generator=draw)
    share, own = images.split(SHARES)[rank()], weight.split(SHARES)[rank()]
    found = {
        (kind, bfloat16): passed(synchronised(net(kind), images.device), share, own, bfloat16)
        for kind in NETS
        for bfloat16 in (False, True)
    }
    torch.save(found, folder / f"worker{number}.pt")
    distributed.barrier()
    distributed.destroy_process_group()
    if number == 0:
        alone = {key: passed(net(key[0]), images, weight, key[1]) for key in found}
        torch.save(alone, folder / "alone.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
