"""Renders samples/photo.npy, the demo's picture: an evening at a lake, 192 by 256 pixels of RGB bytes. Public domain, made by us.

python samples/make_photo.py [OUTPUT]          the same bytes every time: the seed is fixed
"""

import pathlib
import sys

import numpy as np

H, W = 192, 256
SEED = 20261121


def ridge(rng: np.random.Generator, height: float, rough: float) -> np.ndarray:
    """The outline of mountains: sines of falling amplitude with random phases."""
    x = np.linspace(0, 1, W)
    return height + sum(
        rough / k * np.sin(2 * np.pi * k * x * 1.3 + rng.uniform(0, 7)) for k in (1, 2, 3, 5, 8, 13, 21)
    )


def render() -> np.ndarray:
    rng = np.random.default_rng(SEED)
    y, x = np.mgrid[0:H, 0:W].astype(float)
    shore = 120.0
    t = np.clip(y / shore, 0, 1)[..., None]
    picture = (1 - t) * np.array([40, 70, 140.0]) + t * np.array([250, 170, 110.0])       # the sky, darker above
    sun = np.hypot(y - 78, x - 180)
    picture += (190 * np.exp(-((sun / 26) ** 2)))[..., None] * np.array([1, 0.9, 0.6])      # its glow
    picture[sun < 11] = (255, 244, 214)
    for height, rough, colour in ((92, 9, (112, 92, 128)), (104, 6, (72, 66, 96)), (113, 3.5, (44, 52, 62))):
        behind = y > ridge(rng, height, rough)[None, :]
        picture[behind] = np.array(colour) + rng.normal(0, 3, (H, W, 1))[behind]
    # the lake mirrors what is above
    water = y >= shore
    mirror = np.clip(2 * shore - y + 2.5 * np.sin(y * 1.7) * (y - shore) / 40, 0, H - 1).astype(int)
    picture[water] = 0.72 * picture[mirror, x.astype(int)][water] + np.array([8, 18, 34])
    picture += (18 * np.sin(y * 2.2 + 3 * np.sin(x / 9)) * water * np.exp(-np.abs(x - 180) / 30))[..., None]
    for at, size in ((24, 46), (46, 34), (226, 40), (242, 52)):                             # firs on the near shore
        base = 176 - (at % 7)
        inside = (np.abs(x - at) < (y - base + size) * 0.28 * (0.75 + 0.25 * ((y * 0.21) % 1))) & (y < base)
        picture[inside] = (18, 34, 28)
        picture[(np.abs(x - at) < 2) & (y >= base) & (y < base + 8)] = (38, 26, 20)
    picture[y > 178 + 3 * np.sin(x / 17)] = (30, 40, 26)
    # a boat house with a lit window
    picture[128:142, 96:118] = (96, 40, 32)
    picture[132:138, 103:109] = (255, 214, 120)
    roof = (y >= 118) & (y < 128) & (np.abs(x - 107) < (y - 116) * 1.2)
    picture[roof] = (52, 34, 34)
    picture += rng.normal(0, 2.5, (H, W, 3))                                                # grain, as a sensor has
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("photo.npy")
    np.save(target, render())
