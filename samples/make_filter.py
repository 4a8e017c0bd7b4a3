"""Writes samples/filter.npy: 3 by 3 filters over RGB, eight of them: blur, edges in four directions, and three colour
differences."""
import pathlib

import numpy as np

blur = np.outer([1, 2, 1], [1, 2, 1]) / 16
edge = np.outer([1, 2, 1], [-1, 0, 1]) / 4
diagonal = np.array([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]) / 4
laplace = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]]) / 4
grey, red_cyan, blue_yellow, green_magenta = (
    np.array([1, 1, 1]) / 3,
    np.array([1, -0.5, -0.5]),
    np.array([-0.5, -0.5, 1]),
    np.array([-0.5, 1, -0.5]),
)
pairs = [
    (blur, grey),
    (edge, grey),
    (edge.T, grey),
    (diagonal, grey),
    (laplace, grey),
    (blur, red_cyan),
    (blur, blue_yellow),
    (blur, green_magenta),
]
filters = np.stack([window[:, :, None] * colour for window, colour in pairs], axis=-1)
np.save(pathlib.Path(__file__).with_name("filter.npy"), filters.astype(np.float32))
