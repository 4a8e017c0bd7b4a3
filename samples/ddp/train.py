"""A network whose layers are Tile's, trained by several processes: each has a share of every batch, and gradients are averaged over all (gloo).

    ./dev python .venv/bin/torchrun --standalone --nproc-per-node 2 samples/ddp/train.py [--fsdp] [--steps 20]

DistributedDataParallel keeps all parameters in each process, --fsdp (fully_shard) a share of them. Process 0 then trains alone in two ways and says how far
the parameters are apart: the same shares one after the other, whose gradients it averages, and whole batches, whose sums are rounded in another order.
"""

import argparse
import os
import pathlib

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import tilec

DATA = pathlib.Path(__file__).resolve().parent.parent / "digits/digits.npz"
BATCH = 48                                                    # a multiple of the number of processes

LOSS = tilec.torch.function(tilec.std.load("cross_entropy_loss", threads=1))


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    tilec.torch.replace(model, threads=1)
    return model


def batches(steps: int):
    held = np.load(DATA)
    order = np.random.default_rng(0).permutation(len(held["labels"]))
    for k in range(steps):
        rows = np.take(order, range(k * BATCH, (k + 1) * BATCH), mode="wrap")
        yield torch.from_numpy(held["images"][rows]).float().unsqueeze(1) / 16, torch.from_numpy(
            held["labels"][rows]
        ).long()


def train(model: nn.Module, steps: int, shares) -> float:
    """`shares`: for the images and labels of a batch, those of which gradients are averaged here. Gives the last
    loss."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for images, labels in batches(steps):
        optimiser.zero_grad()
        chosen = shares(images, labels)
        for some, theirs in chosen:
            loss = LOSS(model(some), theirs)
            loss.backward()
        for parameter in model.parameters():
            if len(chosen) > 1:
                parameter.grad /= len(chosen)
        optimiser.step()
    return loss.item()


def parameters(model: nn.Module) -> "list[torch.Tensor]":
    """Whole, where each process holds a share."""
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach() for p in model.parameters()]


def apart(model: "list[torch.Tensor]", other: "list[torch.Tensor]") -> float:
    return max((a - b).abs().max().item() for a, b in zip(model, other))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fsdp", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("torchrun says which process this is: see --help")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    def shares(images, labels):
        return list(zip(images.chunk(world), labels.chunk(world)))

    model = network()
    if given.fsdp:
        fully_shard(model, mesh=dist.init_device_mesh("cpu", (world,)))
    else:
        model = nn.parallel.DistributedDataParallel(model)
    loss = train(model, given.steps, lambda images, labels: [shares(images, labels)[rank]])
    together = parameters(model)
    dist.barrier()                                            # nobody leaves while another still reads
    dist.destroy_process_group()
    if rank == 0:
        by_shares, whole = network(), network()
        train(by_shares, given.steps, shares)
        train(whole, given.steps, lambda images, labels: [(images, labels)])
        print(
            "%d processes, %s: loss %.4f after %d steps" % (world, "FSDP" if given.fsdp else "DDP", loss, given.steps)
        )
        print(
            "apart from one process: %.1e with the same shares, %.1e with whole batches"
            % (apart(together, parameters(by_shares)), apart(together, parameters(whole)))
        )


if __name__ == "__main__":
    main()
