"""Options of std/ that make no sense are refused, by name, and those beside them are taken."""
import numpy as np
import pytest

import tilec
from std_errors import program

V, M, H = (5,), (4, 6), (2, 4, 6)                          # a vector, a matrix, two heads
C = (1, 8, 4)                                              # a sequence with channels last
I2, N2 = (1, 8, 8, 4), (1, 4, 8, 8)                        # images, channels last and first
LABELS = np.array([0, 1, 2, 5])

# family, function, inputs (a shape, or the array), options that are taken, the one that is refused, and words of the
# message
REFUSED = [
    ("activation", "hard_tanh", (V,), {"min_val": -1.5}, {"min_val": 2.5, "max_val": 1}, "min_val"),
    ("activation", "soft_shrink", (V,), {"lambd": 0}, {"lambd": -0.5}, "lambd"),
    ("attention", "scaled_dot_product_attention", (H, H, H), {}, {"left_window_size": 1.5}, "window"),
    ("attention", "scaled_dot_product_attention", (H, H, H), {}, {"right_window_size": 0.5}, "window"),
    ("attention", "scaled_dot_product_attention", (H, H, H), {"softcap": 0.5}, {"softcap": -0.5}, "softcap"),
    ("attention", "rotary_tables", (V, 4), {"theta": 0.5}, {"theta": -1}, "theta"),
    ("conv", "conv1d", (C, (3, 4, 2)), {"stride": 1}, {"stride": 0}, "stride"),
    ("conv", "conv2d", (I2, (3, 3, 4, 2)), {"groups": 1}, {"groups": 0}, "groups"),
    ("conv", "conv2d", (I2, (3, 3, 4, 2)), {"groups": 1}, {"groups": -1}, "groups"),
    ("conv_nchw", "conv2d_nchw", (N2, (2, 4, 3, 3)), {"groups": 1}, {"groups": 0}, "groups"),
    ("conv", "conv1d_transpose", (C, (3, 4, 2)), {"output_padding": 0}, {"output_padding": 1}, "output_padding"),
    ("conv", "conv1d_transpose", (C, (3, 4, 2)), {}, {"output_padding": 2, "stride": 2}, "output_padding"),
    ("conv", "conv2d_transpose", (I2, (3, 3, 4, 2)), {"output_padding": 1, "dilation": 2}, {"output_padding": 1}, "output"),
    ("conv_nchw", "conv2d_transpose_nchw", (N2, (4, 2, 3, 3)), {}, {"output_padding_w": 1}, "output_padding"),
    ("conv", "local_conv1d", (C, (6, 3, 4, 2)), {"stride": 1}, {"stride": 0}, "stride"),
    ("distance", "cdist", (M, M), {"p": 0.5}, {"p": -0.5}, "p_is"),
    ("embedding", "sinusoidal", (V, 4), {"theta": 0.5}, {"theta": 0}, "theta"),
    ("indexing", "gather_nd", (M, np.array([[1, 2]])), {"depth": 2}, {"depth": 0}, "depth"),
    ("linear", "matrix_power", ((3, 3),), {"n": 0}, {"n": -1}, "n_is"),
    ("loss", "huber_loss", (V, V), {"delta": 0.5}, {"delta": -1}, "delta"),
    ("loss", "huber_loss", (V, V), {"delta": 0.5}, {"delta": 0}, "delta"),
    ("loss", "smooth_l1_loss", (V, V), {"beta": 0}, {"beta": -0.5}, "beta"),
    ("loss", "huber", (V, V), {"delta": 0.5}, {"delta": -0.5}, "delta"),
    ("loss", "cross_entropy_loss", (M, LABELS), {"label_smoothing": 1}, {"label_smoothing": 1.5}, "label_smoothing"),
    ("loss", "cross_entropy_loss", (M, LABELS), {"label_smoothing": 0}, {"label_smoothing": -0.1}, "label_smoothing"),
    ("loss", "soft_cross_entropy_loss", (M, M), {"label_smoothing": 0.1}, {"label_smoothing": 2}, "label_smoothing"),
    ("loss", "multi_margin_loss", (M, LABELS), {"p": 2}, {"p": 3}, "p_is"),
    ("movement", "slice", (V,), {"start": 0, "stop": 4, "step": 2}, {"start": 0, "stop": 4, "step": 0}, "step"),
    ("movement", "take_first", (V,), {"count": 0}, {"count": -1}, "count"),
    ("movement", "drop_first", (V,), {"count": 0}, {"count": -1}, "count"),
    ("movement", "repeat", (V,), {"repeats": 1}, {"repeats": -1}, "repeats"),
    ("movement", "tile", (V,), {"reps": 1}, {"reps": -1}, "reps"),
    ("movement", "upsample_nearest", (V,), {"scale_factor": 1}, {"scale_factor": 0}, "scale_factor"),
    ("movement", "upsample_bilinear_2d", (I2,), {"scale_factor": 1}, {"scale_factor": 0}, "scale_factor"),
    ("movement", "pixel_shuffle", (N2,), {"upscale_factor": 2}, {"upscale_factor": 0}, "upscale_factor"),
    ("movement", "pixel_unshuffle", (N2,), {"downscale_factor": 2}, {"downscale_factor": 0}, "downscale_factor"),
    ("movement", "channel_shuffle", (N2,), {"groups": 2}, {"groups": 0}, "groups"),
    ("movement", "depth_to_space", (I2,), {"block_size": 2}, {"block_size": 0}, "block_size"),
    ("movement", "space_to_depth_nchw", (N2,), {"block_size": 2}, {"block_size": 0}, "block_size"),
    ("movement", "unfold", (N2,), {"kernel_size_h": 2}, {"kernel_size_h": 2, "stride": 0}, "stride"),
    ("movement", "one_hot", (LABELS,), {"num_classes": 6}, {"num_classes": -1}, "num_classes"),
    ("norm", "local_response_norm", (I2,), {"size": 1}, {"size": 0}, "size"),
    ("norm", "local_response_norm_nchw", (N2,), {"size": 2}, {"size": -3}, "size"),
    ("norm", "group_norm", (I2,), {"num_groups": 2}, {"num_groups": 0}, "num_groups"),
    ("norm", "group_norm_nchw", (N2,), {"num_groups": 2}, {"num_groups": -2}, "num_groups"),
    ("optimiser", "sgd", (V, V, 0.1), {"weight_decay": 0}, {"weight_decay": -0.1}, "weight_decay"),
    ("optimiser", "momentum", (V, V, V, 0.1), {"momentum": 0}, {"momentum": -0.1}, "momentum"),
    ("optimiser", "rmsprop", (V, V, V, 0.1), {"alpha": 0}, {"alpha": -0.5}, "alpha"),
    ("optimiser", "adam", (V, V, V, V, 0.1, 1), {"beta1": 0.5}, {"beta1": 1}, "beta1"),
    ("optimiser", "adamw", (V, V, V, V, 0.1, 1), {"beta2": 0.5}, {"beta2": -0.1}, "beta2"),
    ("optimiser", "lion", (V, V, V, 0.1), {"beta1": 0}, {"beta1": 1.5}, "beta1"),
    ("pool", "max_pool2d", (I2,), {"ceil_mode": 1}, {"ceil_mode": 2}, "ceil_mode"),
    ("pool", "max_pool2d", (I2,), {"stride": 0}, {"stride": -1}, "stride"),
    ("pool", "avg_pool2d", (I2,), {"count_include_pad": 0}, {"count_include_pad": 2}, "count_include_pad"),
    ("pool", "lp_pool1d", (C,), {"norm_type": 0.5}, {"norm_type": -1}, "norm_type"),
    ("pool_nchw", "lp_pool2d_nchw", (N2,), {"norm_type": 1}, {"norm_type": 0}, "norm_type"),
    ("pool_nchw", "max_pool2d_nchw_with_indices", (N2,), {"ceil_mode": 1}, {"ceil_mode": -1}, "ceil_mode"),
    ("resize", "interpolate1d", (C,), {"size": 1}, {"size": 0}, "size"),
    ("resize", "interpolate2d_nchw", (N2,), {"size_h": 3}, {"size_h": -3}, "size"),
    ("resize", "resize_axis", ((1, 5, 1),), {"size": 3}, {"size": 0}, "size"),
    ("resize", "grid_sample", (N2, (1, 2, 2, 2)), {"align_corners": 1}, {"align_corners": 2}, "align_corners"),
    ("resize", "affine_grid", ((1, 2, 3),), {"size_h": 1}, {"size_h": 2, "align_corners": -1}, "align_corners"),
    ("scan", "moving_sum", (V,), {"window": 1}, {"window": 0}, "window"),
    ("scan", "moving_max", (V,), {"window": 1}, {"window": -1}, "window"),
    ("scan", "trailing_average", (V,), {"window": 1}, {"window": 0}, "window"),
    ("signal", "box", (V,), {"radius": 0}, {"radius": -1}, "radius"),
    ("signal", "box_2d", (M,), {"radius": 0}, {"radius": -1}, "radius"),
    ("statistics", "histogram", (LABELS,), {"bins": 1}, {"bins": -1}, "bins"),
    ("tropical", "shortest_paths", ((3, 3),), {"doublings": 0}, {"doublings": -1}, "doublings"),
    ("tropical", "erosion_flat_2d", (M,), {"radius": 0}, {"radius": -1}, "radius"),
]


def given(inputs):
    rng = np.random.default_rng(1)
    return [rng.uniform(0.1, 0.9, value) if isinstance(value, tuple) else value for value in inputs]


@pytest.mark.parametrize("kind, is_refused", [("f4", True), ("f8", True), ("i4", False), ("u1", False), ("i8", False)])
@pytest.mark.parametrize(
    "family, name, inputs, at, words",
    [
        ("loss", "cross_entropy_loss", [np.ones(M), LABELS], 1, "labels(LABEL)"),
        ("loss", "nll_loss", [np.ones(M), LABELS], 1, "labels(LABEL)"),
        ("indexing", "index_select", [np.ones(M), np.array([1, 2])], 1, "labels(I)"),
        ("indexing", "scatter_nd", [np.ones(V), np.array([[1]]), np.ones(1)], 1, "labels(I)"),
        ("recurrent", "rnn_layer", [np.ones((2, 1, 1)), np.ones((1, 1)), np.ones((1, 1)), np.array([2])], 3, "labels(LENGTHS)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_labels_positions_and_lengths_are_integers(family, name, inputs, at, words, kind, is_refused):
    f = program(family, name)
    given = [value.astype(kind) if k == at else value for k, value in enumerate(inputs)]
    call = (lambda: f(*given[:at], LENGTHS=given[at])) if "LENGTHS" in words else (lambda: f(*given))
    if not is_refused:
        call()
        return
    with pytest.raises(tilec.Error) as fault:
        call()
    assert "`|` works on integers" in str(fault.value) and words in str(fault.value)


@pytest.mark.parametrize(
    "family, name, inputs, taken, refused, words", REFUSED, ids=["%s %s" % (row[1], row[4]) for row in REFUSED]
)
def test_options_that_make_no_sense(family, name, inputs, taken, refused, words):
    program(family, name, tuple(taken.items()))(*given(inputs))
    with pytest.raises((tilec.Error, ValueError)) as fault:
        program(family, name, tuple(refused.items()))(*given(inputs))
    assert words in str(fault.value).splitlines()[0]
