"""std/resize.tile next to PyTorch: sizes up and down, places between pixels, derivatives by images and grids."""
import itertools

import numpy as np
import pytest

import tilec
from std_numpy import check_with_torch
from std_errors import program

torch = pytest.importorskip("torch")
interpolate = torch.nn.functional.interpolate
MODES = {1: {"nearest": "nearest", "nearest_exact": "nearest-exact", "linear": "linear"},
         2: {"nearest": "nearest", "nearest_exact": "nearest-exact", "linear": "bilinear", "cubic": "bicubic"},
         3: {"nearest": "nearest", "nearest_exact": "nearest-exact", "linear": "trilinear"}}
SIZES = {
    1: [((7,), (12,)), ((7,), (3,)), ((1,), (4,)), ((5,), (1,)), ((5,), (5,))],
    2: [((4, 5), (8, 3)), ((3, 1), (2, 6)), ((6, 7), (6, 7)), ((2, 2), (7, 1))],
    3: [((2, 3, 4), (5, 2, 4)), ((3, 2, 1), (1, 5, 3))],
}
CASES = [
    (rank, mode, corners, sizes)
    for rank in (1, 2, 3)
    for mode in MODES[rank]
    for corners in ((0, 1) if "nearest" not in mode else (0,))
    for sizes in SIZES[rank]
]


@pytest.mark.parametrize("first", [True, False], ids=["channels first", "channels last"])
@pytest.mark.parametrize("rank, mode, corners, sizes", CASES)
def test_sizes(rank, mode, corners, sizes, first):
    before, after = sizes
    names = ["size"] if rank == 1 else ["size_" + axis for axis in "thw"[3 - rank:]]
    define = {**dict(zip(names, after)), "mode": mode, "align_corners": corners}
    image = np.random.default_rng(1).standard_normal((2, 3, *before))

    def reference(x):
        x = x if first else x.movedim(-1, 1)
        y = interpolate(
            x, after, mode=MODES[rank][mode], align_corners=bool(corners) if "nearest" not in mode else None
        )
        return y if first else y.movedim(1, -1)
    name = "interpolate%dd" % rank + ("_" + ("ncw", "nchw", "ncdhw")[rank - 1] if first else "")
    check_with_torch("resize", name, define, [image if first else np.moveaxis(image, 1, -1)], reference, np.float64)


def test_cubic_of_one_dimension_is_a_row_of_an_image():
    x = np.random.default_rng(2).standard_normal((2, 6, 3))
    image = program("resize", "interpolate2d", (("size_h", 1), ("size_w", 9), ("mode", "cubic")))(x[:, None])
    np.testing.assert_array_equal(program("resize", "interpolate1d", (("size", 9), ("mode", "cubic")))(x), image[:, 0])


def test_types():
    image = np.arange(24, dtype=np.int32).reshape(1, 4, 6, 1)
    assert program("resize", "interpolate2d", (("size_h", 3),))(image).dtype == np.int32
    assert program("resize", "interpolate2d", (("size_h", 3), ("mode", "linear")))(image).dtype == np.float32
    assert (
        program("resize", "interpolate2d", (("size_h", 3), ("mode", "cubic")))(image.astype(np.float16)).dtype
        == np.float16
    )


GRIDS = list(itertools.product(["bilinear", "nearest"], ["zeros", "border", "reflection"], [0, 1]))


@pytest.mark.parametrize("mode, padding_mode, corners", GRIDS)
def test_grid_sample(mode, padding_mode, corners):
    rng = np.random.default_rng(3)
    image, grid = rng.standard_normal((2, 3, 5, 4)), rng.uniform(-2.3, 2.3, (2, 4, 6, 2))
    define = {"mode": mode, "padding_mode": padding_mode, "align_corners": corners}
    check_with_torch(
        "resize",
        "grid_sample",
        define,
        [image, grid],
        lambda i, g: torch.nn.functional.grid_sample(i, g, mode, padding_mode, bool(corners)),
        np.float64,
    )


@pytest.mark.parametrize("mode, padding_mode, corners", GRIDS)
def test_the_derivative_by_places_at_the_ends(mode, padding_mode, corners):
    """Exactly at the first and the last pixel, and on both sides of them."""
    ends = np.array([-2, -1.25, -1, -0.8, 0, 0.75, 0.8, 1, 1.2, 2])
    grid = np.stack(np.meshgrid(ends, ends, indexing="ij"), -1)[None]
    check_with_torch(
        "resize",
        "grid_sample",
        {"mode": mode, "padding_mode": padding_mode, "align_corners": corners},
        [np.random.default_rng(5).standard_normal((1, 2, 4, 5)), grid],
        lambda i, g: torch.nn.functional.grid_sample(i, g, mode, padding_mode, bool(corners)),
        np.float64,
    )


@pytest.mark.parametrize("mode, padding_mode, corners", GRIDS)
def test_places_that_are_no_numbers_or_far_away_stop_nothing(mode, padding_mode, corners):
    grid = np.array([[[np.nan, 0], [np.inf, -np.inf], [1e30, -1e30], [0, 0]]])[None]
    values = program(
        "resize", "grid_sample", (("mode", mode), ("padding_mode", padding_mode), ("align_corners", corners))
    )(np.ones((1, 1, 3, 3)), grid.reshape(1, 1, 4, 2))
    assert values.shape == (1, 1, 1, 4) and values[0, 0, 0, 3] == 1


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(3, 4), (1, 5), (2, 1)])
def test_affine_grid(size, corners):
    theta = np.random.default_rng(4).standard_normal((2, 2, 3))
    check_with_torch(
        "resize",
        "affine_grid",
        {"size_h": size[0], "size_w": size[1], "align_corners": corners},
        [theta],
        lambda t: torch.nn.functional.affine_grid(t, (2, 1, *size), align_corners=bool(corners)),
        np.float64,
    )


def test_a_mode_that_is_none_is_named():
    with pytest.raises(
        tilec.ProgramError, match="`mode` is one of `nearest`, `nearest_exact`, `linear` and `cubic`, not `liner`"
    ):
        program("resize", "interpolate1d", (("size", 3), ("mode", "liner")))


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_grids_that_are_not_finite(mode, padding_mode):
    image = np.arange(1, 13, dtype="f4").reshape(1, 1, 3, 4)
    grid = np.array([[x, y] for x in (np.nan, np.inf, -np.inf, 0.3) for y in (0.1, np.nan)], "f4").reshape(1, 1, -1, 2)
    expected = torch.nn.functional.grid_sample(
        torch.tensor(image), torch.tensor(grid), mode, padding_mode, align_corners=False
    ).numpy()
    np.testing.assert_allclose(
        program("resize", "grid_sample", (("mode", mode), ("padding_mode", padding_mode)))(image, grid),
        expected,
        rtol=1e-5,
    )


def test_antialias_has_no_corners_to_align():
    options = (("size", 3), ("mode", "linear"), ("antialias", "true"), ("align_corners", "true"))
    with pytest.raises(ValueError, match="assert_antialias_is_without_align_corners"):
        program("resize", "interpolate1d_ncw", options)(np.zeros((1, 1, 8)))
