"""Trains the network of digits.tile on the handwritten digits, and beside it the same network of PyTorch's own layers, from the same numbers.

    ./dev python .venv/bin/python samples/digits/train.py [--epochs 12] [--threads 1]

Both read the same batches in the same order. Each epoch prints the loss and the seconds of both; in the end stands the share of the test images that
each names rightly, how far the losses were apart, and how many times as fast the network in Tile was. It needs PyTorch.
"""

import argparse
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F

import tilec

HERE = pathlib.Path(__file__).resolve().parent
BATCH, TESTED = 32, 360


def digits():
    """Images of numbers from 0 to 1 and labels, for training and for the test."""
    held = np.load(HERE / "digits.npz")
    order = np.random.default_rng(0).permutation(len(held["labels"]))
    images = torch.from_numpy(held["images"][order]).float().unsqueeze(1) / 16
    labels = torch.from_numpy(held["labels"][order]).long()
    return (images[TESTED:], labels[TESTED:]), (images[:TESTED], labels[:TESTED])


class Network(torch.nn.Module):
    """Parameters, named as in digits.tile and drawn from a seed."""

    def __init__(self, seed: int, channels=(16, 32)):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        first, second = channels

        def normal(*shape, over):
            return torch.nn.Parameter(torch.randn(*shape, generator=generator) * (2 / over) ** 0.5)

        self.K1, self.B1 = normal(first, 1, 3, 3, over=9), torch.nn.Parameter(torch.zeros(first))
        self.K2, self.B2 = normal(second, first, 3, 3, over=9 * first), torch.nn.Parameter(torch.zeros(second))
        self.WEIGHT, self.BIAS = normal(10, 16 * second, over=16 * second), torch.nn.Parameter(torch.zeros(10))


class InTile(Network):
    def __init__(self, seed: int, threads: int = 1):
        super().__init__(seed)
        net = tilec.load(HERE / "digits.tile", threads=threads)
        self.compute_loss, self.compute_logits = tilec.torch.function(net.loss), tilec.torch.function(net.logits)

    def loss(self, x, label):
        return self.compute_loss(x, label, self.K1, self.B1, self.K2, self.B2, self.WEIGHT, self.BIAS)

    def forward(self, x):
        return self.compute_logits(x, self.K1, self.B1, self.K2, self.B2, self.WEIGHT, self.BIAS)


class InTorch(Network):
    def loss(self, x, label):
        return F.cross_entropy(self(x), label)

    def forward(self, x):
        x = F.relu(F.conv2d(x, self.K1, self.B1, padding=1))
        x = F.relu(F.conv2d(x, self.K2, self.B2, padding=1))
        return F.linear(F.max_pool2d(x, 2).flatten(1), self.WEIGHT, self.BIAS)


def epoch(network, optimiser, images, labels, order) -> "tuple[list[float], float]":
    """The losses of its steps, and its seconds."""
    losses, start = [], time.perf_counter()
    for rows in order.split(BATCH):
        optimiser.zero_grad()
        loss = network.loss(images[rows], labels[rows])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, time.perf_counter() - start


def accuracy(network, images, labels) -> float:
    with torch.no_grad():
        return (network(images).argmax(1) == labels).float().mean().item()


def train(epochs: int, threads: int = 1, seed: int = 0, say=print) -> dict:
    """Both networks. Gives the losses of all steps, the accuracies and the seconds of all epochs but the first, which
    compiles."""
    torch.set_num_threads(threads)
    training, test = digits()
    networks = {"tile": InTile(seed, threads), "torch": InTorch(seed)}
    optimisers = {
        name: torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9) for name, network in networks.items()
    }
    shuffles = torch.Generator().manual_seed(seed)
    losses, seconds = {name: [] for name in networks}, {name: [] for name in networks}
    for k in range(epochs):
        order = torch.randperm(len(training[1]), generator=shuffles)
        for name, network in networks.items():
            steps, taken = epoch(network, optimisers[name], *training, order)
            losses[name] += steps
            seconds[name].append(taken)
        mean = {name: np.mean(losses[name][-len(order.split(BATCH)):]) for name in networks}
        say(
            "epoch %2d  loss %.5f in Tile, %.5f in PyTorch   %.3f s and %.3f s"
            % (k + 1, mean["tile"], mean["torch"], seconds["tile"][-1], seconds["torch"][-1])
        )
    return {
        "losses": losses,
        "accuracy": {name: accuracy(network, *test) for name, network in networks.items()},
        "seconds": {name: taken[1:] for name, taken in seconds.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    made = train(given.epochs, given.threads)
    apart = max(abs(a - b) for a, b in zip(*made["losses"].values()))
    print(
        "of %d test images %.1f %% are named rightly in Tile, %.1f %% in PyTorch; no step's losses are further apart than %.1e"
        % (TESTED, 100 * made["accuracy"]["tile"], 100 * made["accuracy"]["torch"], apart)
    )
    if given.epochs > 1:
        ours, theirs = (np.median(made["seconds"][name]) for name in ("tile", "torch"))
        print(
            "an epoch takes %.3f s in Tile and %.3f s in PyTorch (medians): %.2f times as fast"
            % (ours, theirs, theirs / ours)
        )


if __name__ == "__main__":
    main()
