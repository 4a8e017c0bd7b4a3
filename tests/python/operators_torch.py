"""PyTorch's functions by functions of std/: names of torch.testing's database of operators, with a variant as
`name.variant`."""
import math

import torch

from operators import LeftOut, covers_in, std

TABLE = {}                                                  # name in the database: a function with PyTorch's arguments
# another than PyTorch's function itself, where that is less exact than what is compared
REFERENCE = {}
VALUES_ONLY = {  # gradients are not compared, because
    **{
        "nn.functional.max_unpool%dd" % _rank: "PyTorch gives a place that is named twice to both"
        for _rank in (1, 2, 3)
    }
}


covers = covers_in(TABLE)


def elementwise(name: str, function: str, *names: str):
    """A function of one tensor whose options are parameters of PyTorch's names, in its order."""
    def operator(x, *values, inplace=False, **options):
        return std(function, x, **dict(zip(names, values)), **options)
    operator.__name__ = function
    TABLE[name] = operator


for _name, _function in {
    "relu6": "relu6",
    "selu": "selu",
    "silu": "silu",
    "mish": "mish",
    "softsign": "softsign",
    "hardsigmoid": "hard_sigmoid",
    "hardswish": "hard_swish",
    "tanhshrink": "tanh_shrink",
    "logsigmoid": "log_sigmoid",
}.items():
    elementwise("nn.functional." + _name, _function)
elementwise("nn.functional.leaky_relu", "leaky_relu", "negative_slope")
elementwise("nn.functional.elu", "elu", "alpha")
elementwise("nn.functional.celu", "celu", "alpha")
elementwise("nn.functional.hardtanh", "hard_tanh", "min_val", "max_val")
elementwise("nn.functional.softshrink", "soft_shrink", "lambd")
elementwise("nn.functional.hardshrink", "hard_shrink", "lambd")
elementwise("nn.functional.threshold", "threshold", "threshold", "value")
elementwise("log1p", "log1p")
elementwise("expm1", "expm1")
for _name in ("erfinv", "erfc", "lgamma", "digamma", "i0", "msort"):
    elementwise(_name, _name)
for _name in ("erfcx", "ndtr", "ndtri", "log_ndtr", "entr", "i0e", "i1", "i1e"):
    elementwise("special." + _name, _name)
# not bessel_j0 and its kinds, whose angle PyTorch rounds to f32: test_std_bessel.py
for _name in ("modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1"):
    elementwise("special." + _name, _name)
for _name in ("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0"):
    elementwise("special." + _name, _name)
for _n in range(5):
    elementwise("polygamma.polygamma_n_%d" % _n, "polygamma", "n")
elementwise("special.polygamma.special_polygamma_n_0", "polygamma", "n")
for _p in (1, 3, 5):
    elementwise("mvlgamma.mvlgamma_p_%d" % _p, "mvlgamma", "p")
# its derivative is 1/6 in f32
REFERENCE["nn.functional.hardsigmoid"] = lambda x, inplace=False: torch.nn.functional.relu6(x + 3) / 6


# PyTorch adds 1 to an erf near -1
REFERENCE["special.ndtr"] = lambda x: torch.special.erfc(-x / math.sqrt(2)) / 2


def area(name: str):
    def under(y, x=None, dx=1, dim=-1):
        if x is not None and x.ndim > 1:
            raise LeftOut("places of each row")
        return std(name, y, x, dx=dx, dim=dim)
    return under


TABLE["cumulative_trapezoid"] = area("cumulative_trapezoid")
TABLE["trapezoid"] = TABLE["trapz"] = area("trapezoid")


@covers("nn.functional.softplus")
def softplus(x, beta=1, threshold=20):
    return std("softplus", x, beta=beta, threshold=threshold)


@covers("nn.functional.gelu")
def gelu(x, approximate="none"):
    return std("gelu_tanh" if approximate == "tanh" else "gelu", x)


@covers("nn.functional.prelu")
def prelu(x, weight):
    return std("prelu", x, weight.reshape(()) if weight.numel() == 1 else weight.reshape(-1, *[1] * (x.ndim - 2)))


@covers("nn.functional.glu")
def glu(x, dim=-1):
    return std("glu", x.movedim(dim, -1)).movedim(-1, dim)


def two(name: str):
    def operator(x, y):
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            raise LeftOut("a number instead of a tensor")
        return std(name, x, y)
    return operator


TABLE["xlogy"], TABLE["hypot"] = two("xlogy"), two("hypot")


# Softmax

def refuse_dtype(dtype):
    if dtype is not None:
        raise LeftOut("dtype: convert the input")


@covers("softmax", "softmax.with_dtype")
def softmax(x, dim, dtype=None):
    refuse_dtype(dtype)
    return std("softmax", at_least_1d(x), dim=dim).reshape(x.shape)


@covers("log_softmax", "log_softmax.with_dtype")
def log_softmax(x, dim, dtype=None):
    refuse_dtype(dtype)
    return std("log_softmax", at_least_1d(x), dim=dim).reshape(x.shape)


@covers("nn.functional.softmin", "nn.functional.softmin.with_dtype")
def softmin(x, dim, dtype=None):
    refuse_dtype(dtype)
    return std("softmax", -at_least_1d(x), dim=dim).reshape(x.shape)


@covers("torch.ops.aten._safe_softmax.default")
def safe_softmax(x, dim, dtype=None):
    refuse_dtype(dtype)
    return std("safe_softmax", at_least_1d(x), dim=dim).reshape(x.shape)


@covers("masked.softmax")
def masked_softmax(x, dim, dtype=None, mask=None):
    refuse_dtype(dtype)
    if mask is None:
        raise LeftOut("without a mask")
    counts = at_least_1d(mask.expand(x.shape)).contiguous()
    if not counts.any(dim).all():
        raise LeftOut("a row of which nothing counts: NaN in PyTorch, 0 here")
    return std("masked_softmax", at_least_1d(x), counts, dim=dim).reshape(x.shape)


@covers("logsumexp")
def logsumexp(x, dim, keepdim=False):
    first, last = (d % max(x.ndim, 1) for d in neighbours(x, dim))
    flat = at_least_1d(x).flatten(first, last)
    return with_dims(std("logsumexp", flat, dim=first), x, dims_of(x, dim), keepdim)


@covers("logcumsumexp")
def logcumsumexp(x, dim):
    return std("cumulative_logsumexp", at_least_1d(x), dim=dim).reshape(x.shape)


def at_least_1d(x):
    return x if x.ndim else x.reshape(1)


def with_dims(y, x, dims, keepdim):
    """A reduced tensor with dimensions of 1 again, or without."""
    kept = [1 if k in {d % max(x.ndim, 1) for d in dims} else n for k, n in enumerate(x.shape)]
    return (
        y.reshape(kept)
        if keepdim
        else y.reshape([n for k, n in enumerate(x.shape) if k not in {d % max(x.ndim, 1) for d in dims}])
    )


def neighbours(x, dim):
    """First and last of dimensions that lie side by side."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return 0, -1
    dims = sorted(d % max(x.ndim, 1) for d in ((dim,) if isinstance(dim, int) else dim))
    if dims != list(range(dims[0], dims[-1] + 1)):
        raise LeftOut("dimensions that are no neighbours")
    return dims[0], dims[-1]


def dims_of(x, dim):
    return (
        tuple(range(x.ndim))
        if dim is None or (not isinstance(dim, int) and len(dim) == 0)
        else (dim,) if isinstance(dim, int) else tuple(dim)
    )


def reduced(name, x, dim, keepdim, **parameters):
    first, last = neighbours(x, dim)
    return with_dims(
        std(name, at_least_1d(x), start_dim=first, end_dim=last, **parameters), x, dims_of(x, dim), keepdim
    )


# Statistics

@covers("mean")
def mean(x, dim=None, keepdim=False, dtype=None):
    refuse_dtype(dtype)
    return reduced("statistics.mean", x, dim, keepdim)


@covers("amax")
def amax(x, dim=(), keepdim=False):
    return reduced("largest", x, dim, keepdim)


@covers("amin")
def amin(x, dim=(), keepdim=False):
    return reduced("smallest", x, dim, keepdim)


TABLE["max.reduction_no_dim"] = lambda x: std("largest", at_least_1d(x))
TABLE["min.reduction_no_dim"] = lambda x: std("smallest", at_least_1d(x))


def spread(function, with_mean=False):
    def operator(x, dim=None, unbiased=True, *, correction=None, keepdim=False):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = correction if correction is not None else int(unbiased)
        y = reduced(function, x, dim, keepdim, correction=ddof)
        return (y, reduced("statistics.mean", x, dim, keepdim)) if with_mean else y
    return operator


TABLE["var"] = TABLE["var.unbiased"] = spread("variance")
TABLE["std"] = TABLE["std.unbiased"] = spread("deviation")
TABLE["var_mean"] = TABLE["var_mean.unbiased"] = spread("variance", True)
TABLE["std_mean"] = TABLE["std_mean.unbiased"] = spread("deviation", True)


@covers("cov")
def cov(x, correction=1, fweights=None, aweights=None):
    y = std("covariance", x.reshape(1, -1) if x.ndim < 2 else x, fweights, aweights, correction=correction)
    return y.reshape(()) if x.ndim < 2 else y.reshape(()) if y.numel() == 1 else y


@covers("corrcoef")
def corrcoef(x):
    y = std("correlation", x.reshape(1, -1) if x.ndim < 2 else x)
    return y.reshape(()) if y.numel() == 1 else y


@covers("bincount")
def bincount(x, weights=None, minlength=0):
    bins = max(minlength, int(x.max()) + 1 if x.numel() else 0)
    return std("histogram", x, bins=bins) if weights is None else std("histogram_weighted", x, weights, bins=bins)


# Products

@covers("matmul")
def matmul(x, y):
    if x.ndim == 1 and y.ndim == 1:
        return std("dot", x, y)
    if y.ndim == 1:
        return std("matvec", x, y.expand(*x.shape[:-2], -1) if x.ndim > 2 else y)
    if x.ndim == 1:
        return std("vecmat", x.expand(*y.shape[:-2], -1) if y.ndim > 2 else x, y)
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return std("matmul", x.expand(*batch, *x.shape[-2:]), y.expand(*batch, *y.shape[-2:]))


TABLE["__rmatmul__"] = lambda x, y: matmul(y, x)
TABLE["mm"] = lambda x, y: std("matmul", x, y)
TABLE["bmm"] = TABLE["mm"]
TABLE["mv"] = lambda x, y: std("matvec", x, y)
TABLE["dot"] = TABLE["vdot"] = lambda x, y: std("dot", x, y)
TABLE["outer"] = lambda x, y: std("outer", x, y)
TABLE["trace"] = lambda x: std("trace", x)


@covers("kron")
def kron(x, y):
    if x.ndim != 2 or y.ndim != 2:
        raise LeftOut("tensors that are no matrices")
    return std("kron", x, y)


@covers("addmm", "addmm.decomposed")
def addmm(c, a, b, alpha=1, beta=1):
    return std("gemm", a, b, c, alpha=alpha, beta=beta)


@covers("baddbmm")
def baddbmm(c, a, b, alpha=1, beta=1):
    return alpha * std("matmul", a, b) + beta * c


@covers("addmv")
def addmv(c, a, x, alpha=1, beta=1):
    return alpha * std("matvec", a, x) + beta * c


@covers("addr")
def addr(c, x, y, alpha=1, beta=1):
    return alpha * std("outer", x, y) + beta * c


@covers("linalg.vecdot")
def vecdot(x, y, dim=-1):
    x, y = torch.broadcast_tensors(x, y)
    return std("vecdot", x, y, dim=dim)


@covers("linalg.matrix_power")
def matrix_power(x, n):
    if n < 0:
        raise LeftOut("the inverse")
    return std("matrix_power", x, n=n)


@covers("nn.functional.linear")
def linear(x, weight, bias=None):
    if weight.ndim == 1:
        return (
            std("dot" if x.ndim == 1 else "matvec", x, weight) + (0 if bias is None else bias)
            if x.ndim < 3
            else std("linear", x, weight[None], None if bias is None else bias.reshape(1))[..., 0]
        )
    return std("linear", x, weight, bias)


@covers("nn.functional.bilinear")
def bilinear(x, y, weight, bias=None):
    z = std("bilinear", x, y, weight)
    return z if bias is None else z + bias


@covers("diagonal", "diagonal_copy")
def diagonal(x, offset=0, dim1=0, dim2=1):
    first, second = dim1 % x.ndim, dim2 % x.ndim
    if first > second:
        first, second, offset = second, first, -offset
    return std("diagonal", x, offset=offset, dim1=first, dim2=second)


TABLE["linalg.diagonal"] = lambda x, offset=0, dim1=-2, dim2=-1: diagonal(x, offset, dim1, dim2)


@covers("diag")
def diag(x, diagonal=0):
    if x.ndim == 2:
        return std("diagonal", x, offset=diagonal)
    return std("diag", x, offset=diagonal)


@covers("tril")
def tril(x, diagonal=0):
    return std("tril", x, diagonal=diagonal)


@covers("triu")
def triu(x, diagonal=0):
    return std("triu", x, diagonal=diagonal)


@covers("linalg.vector_norm")
def vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    refuse_dtype(dtype)
    return reduced("vector_norm", x, dim, keepdim, ord=ord)


@covers("nn.functional.normalize")
def normalize(x, p=2, dim=1, eps=1e-12):
    return std("normalize", at_least_1d(x), p=p, dim=dim, eps=eps).reshape(x.shape)


# Distances

@covers("cdist")
def cdist(x, y, p=2, compute_mode=None):
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return std("cdist", x.expand(*batch, *x.shape[-2:]), y.expand(*batch, *y.shape[-2:]), p=p)


@covers("nn.functional.pairwise_distance")
def pairwise_distance(x, y, p=2, eps=1e-6, keepdim=False):
    x, y = torch.broadcast_tensors(x, y)
    return std("pairwise_distance", x, y, p=p, eps=eps, keepdim=keepdim)


@covers("nn.functional.cosine_similarity")
def cosine_similarity(x, y, dim=1, eps=1e-8):
    x, y = torch.broadcast_tensors(x, y)
    return std("cosine_similarity", at_least_1d(x), at_least_1d(y), dim=dim, eps=eps)


# Normalisation

def rows(x, shape):
    """The last dimensions, of this shape, as one."""
    return x.reshape(*x.shape[:x.ndim - len(shape)], math.prod(shape))


@covers("nn.functional.layer_norm")
def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return std(
        "layer_norm",
        rows(x, normalized_shape),
        *(None if w is None else w.reshape(-1) for w in (weight, bias)),
        eps=eps,
    ).reshape(x.shape)


@covers("nn.functional.rms_norm")
def rms_norm(x, normalized_shape, weight=None, eps=None):
    return std(
        "rms_norm",
        rows(x, normalized_shape),
        None if weight is None else weight.reshape(-1),
        eps=torch.finfo(x.dtype).eps if eps is None else eps,
    ).reshape(x.shape)


@covers("nn.functional.group_norm")
def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    return std("group_norm_nchw", x, weight, bias, num_groups=num_groups, eps=eps)


@covers("nn.functional.batch_norm")
def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if x.ndim < 2:
        raise LeftOut("a tensor of one dimension")
    if training:
        return std("batch_norm_nchw", x, weight, bias, eps=eps)[0]
    return std("batch_norm_inference_nchw", x, running_mean, running_var, weight, bias, eps=eps)


@covers("nn.functional.instance_norm")
def instance_norm(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    if not use_input_stats:
        return std("batch_norm_inference_nchw", x, running_mean, running_var, weight, bias, eps=eps)
    return std("instance_norm_nchw", x, weight, bias, eps=eps)


@covers("nn.functional.local_response_norm")
def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    return std("local_response_norm_nchw", x, size=size, alpha=alpha, beta=beta, k=k)


# Losses

def reduction_of(size_average=None, reduce=None, reduction="mean"):
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    return reduction


def loss(function, **parameters):
    """A loss of values and targets; PyTorch's option=parameter."""
    def operator(x, *others, reduction="mean", size_average=None, reduce=None, **options):
        return std(
            function,
            x,
            *others,
            reduction=reduction_of(size_average, reduce, reduction),
            **{parameters[key]: value for key, value in options.items()},
        )
    return operator


TABLE["nn.functional.mse_loss"] = loss("mse_loss")
TABLE["nn.functional.l1_loss"] = loss("l1_loss")
TABLE["nn.functional.smooth_l1_loss"] = loss("smooth_l1_loss", beta="beta")
TABLE["nn.functional.huber_loss"] = loss("huber_loss", delta="delta")
TABLE["nn.functional.soft_margin_loss"] = loss("soft_margin_loss")
TABLE["nn.functional.multilabel_margin_loss"] = lambda x, target, **options: loss("multilabel_margin_loss")(
    at_least_1d(x), at_least_1d(target), **options
)
TABLE["nn.functional.kl_div"] = loss("kl_div", log_target="log_target")
TABLE["nn.functional.poisson_nll_loss"] = loss("poisson_nll_loss", log_input="log_input", full="full", eps="eps")


def poisson_nll_loss(x, target, full=False, reduction="mean", size_average=None, reduce=None, **options):
    """PyTorch's own gradient by a target of 0 is NaN with full=True: that of 0*log(0), masked."""
    each = torch.nn.functional.poisson_nll_loss(x, target, reduction="none", **options)
    if full:
        large = target.clamp(min=1)
        each = each + torch.where(target > 1, large * large.log() - large + 0.5 * (2 * math.pi * large).log(), 0)
    reduction = reduction_of(size_average, reduce, reduction)
    return each if reduction == "none" else getattr(each, reduction)()


REFERENCE["nn.functional.poisson_nll_loss"] = poisson_nll_loss
TABLE["nn.functional.hinge_embedding_loss"] = loss("hinge_embedding_loss", margin="margin")
TABLE["nn.functional.margin_ranking_loss"] = loss("margin_ranking_loss", margin="margin")
TABLE["nn.functional.cosine_embedding_loss"] = loss("cosine_embedding_loss", margin="margin")
TABLE["nn.functional.triplet_margin_loss"] = loss("triplet_margin_loss", margin="margin", p="p", eps="eps", swap="swap")


@covers("nn.functional.gaussian_nll_loss")
def gaussian_nll_loss(x, target, var, full=False, eps=1e-6, reduction="mean"):
    if not isinstance(var, torch.Tensor):
        raise LeftOut("a number instead of a tensor")
    if var.shape == x.shape[:-1] and var.shape != x.shape:
        var = var[..., None]
    x, target = torch.broadcast_tensors(x, target)
    return std("gaussian_nll_loss", x, target, var, full=full, eps=eps, reduction=reduction)


@covers("nn.functional.binary_cross_entropy")
def binary_cross_entropy(x, target, weight=None, reduction="mean"):
    return std("binary_cross_entropy_loss", x, target, weight, reduction=reduction)


@covers("nn.functional.binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    x, target, weight=None, reduction="mean", pos_weight=None, size_average=None, reduce=None
):
    return std(
        "binary_cross_entropy_with_logits",
        x,
        target,
        weight,
        pos_weight,
        reduction=reduction_of(size_average, reduce, reduction),
    )


@covers("nn.functional.multilabel_soft_margin_loss")
def multilabel_soft_margin_loss(x, target, weight=None, reduction="mean"):
    if weight is not None and weight.ndim > 1:
        raise LeftOut("a weight of each element")
    return std("multilabel_soft_margin_loss", x, target, weight, reduction=reduction)


@covers("nn.functional.multi_margin_loss")
def multi_margin_loss(x, target, p=1, margin=1, weight=None, reduction="mean"):
    if x.ndim < 2:
        x, target = at_least_1d(x), target.reshape(())
    return std("multi_margin_loss", x, target, weight, p=p, margin=margin, reduction=reduction)


@covers("nn.functional.cross_entropy")
def cross_entropy(x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    alone = x.ndim == 1
    if target.is_floating_point():
        y = std(
            "soft_cross_entropy_loss",
            x[None] if alone else x,
            target[None] if alone else target,
            weight,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )
    else:
        y = std(
            "cross_entropy_loss",
            x[None] if alone else x,
            target[None] if alone else target,
            weight,
            reduction=reduction,
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
        )
    return y[0] if alone and reduction == "none" else y


@covers("nn.functional.nll_loss")
def nll_loss(x, target, weight=None, ignore_index=-100, reduction="mean"):
    alone = x.ndim == 1
    y = std(
        "nll_loss",
        x[None] if alone else x,
        target[None] if alone else target,
        weight,
        reduction=reduction,
        ignore_index=ignore_index,
    )
    return y[0] if alone and reduction == "none" else y


# Convolutions, pooling, images

LAYOUT = {1: "ncw", 2: "nchw", 3: "ncdhw"}
AXES = {1: ("",), 2: ("_h", "_w"), 3: ("_t", "_h", "_w")}


def per_axis(rank, **options):
    """stride=(2, 1) ⇒ stride_h=2, stride_w=1"""
    made = {}
    for name, value in options.items():
        values = (value,) * rank if isinstance(value, int) else tuple(value) * (rank if len(value) == 1 else 1)
        made.update({name + axis: v for axis, v in zip(AXES[rank], values)})
    return made


def batched(x, rank, operator):
    """An image of its own is a batch of one."""
    if x.ndim == rank + 2:
        return operator(x)
    made = operator(x[None])
    return tuple(y[0] for y in made) if isinstance(made, tuple) else made[0]


def convolution(rank):
    def operator(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        where = (
            {"auto_pad": "same_upper" if padding == "same" else "valid"}
            if isinstance(padding, str)
            else per_axis(rank, padding=padding)
        )
        options = {**per_axis(rank, stride=stride, dilation=dilation), **where, "groups": groups}
        y = batched(x, rank, lambda z: std("conv%dd_%s" % (rank, LAYOUT[rank]), z, weight, **options))
        return y if bias is None else y + bias.reshape(-1, *[1] * rank)
    return operator


def transposed_convolution(rank):
    def operator(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        options = per_axis(rank, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation)
        y = batched(
            x, rank, lambda z: std("conv%dd_transpose_%s" % (rank, LAYOUT[rank]), z, weight, groups=groups, **options)
        )
        return y if bias is None else y + bias.reshape(-1, *[1] * rank)
    return operator


def max_pool(rank):
    def operator(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        options = {
            **per_axis(
                rank,
                kernel_size=kernel_size,
                stride=kernel_size if stride is None or stride == () else stride,
                padding=padding,
                dilation=dilation,
            ),
            "ceil_mode": int(ceil_mode),
        }
        name = "max_pool%dd_%s" % (rank, LAYOUT[rank]) + ("_with_indices" if return_indices else "")
        return batched(x, rank, lambda z: std(name, z, **options))
    return operator


def avg_pool(rank):

    def operator(
        x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        options = {
            **per_axis(
                rank,
                kernel_size=kernel_size,
                stride=kernel_size if stride is None or stride == () else stride,
                padding=padding,
            ),
            "ceil_mode": int(ceil_mode),
            "count_include_pad": int(count_include_pad),
        }
        if divisor_override is not None:
            options["divisor_override"] = divisor_override
        return batched(x, rank, lambda z: std("avg_pool%dd_%s" % (rank, LAYOUT[rank]), z, **options))

    return operator


def adaptive_pool(kind, rank):
    def operator(x, output_size, return_indices=False):
        sizes = (
            (output_size,) * rank
            if isinstance(output_size, int)
            else tuple(output_size) * (rank if len(output_size) == 1 else 1)
        )
        sizes = [n if size is None else size for n, size in zip(x.shape[-rank:], sizes)]
        names = ["output_size"] if rank == 1 else ["output" + axis for axis in AXES[rank]]
        name = "adaptive_%s_pool%dd_%s" % (kind, rank, LAYOUT[rank]) + ("_with_indices" if return_indices else "")
        return batched(x, rank, lambda z: std(name, z, **dict(zip(names, sizes))))
    return operator


def max_unpool(rank):
    def operator(x, indices, kernel_size, stride=None, padding=0, output_size=None):
        sizes = output_size
        if sizes is None:
            one = {
                key: (value,) * rank if isinstance(value, int) else tuple(value)
                for key, value in {
                    "k": kernel_size,
                    "s": kernel_size if stride is None else stride,
                    "p": padding,
                }.items()
            }
            sizes = [(n - 1) * s - 2 * p + k for n, k, s, p in zip(x.shape[-rank:], one["k"], one["s"], one["p"])]
        names = ["output_size"] if rank == 1 else ["output" + axis for axis in AXES[rank]]
        function, options = "max_unpool%dd_%s" % (rank, LAYOUT[rank]), dict(zip(names, map(int, tuple(sizes)[-rank:])))
        return (
            std(function, x, indices, **options)
            if x.ndim == rank + 2
            else std(function, x[None], indices[None], **options)[0]
        )
    return operator


for _rank in (1, 2, 3):
    TABLE["nn.functional.conv%dd" % _rank] = convolution(_rank)
    TABLE["nn.functional.conv_transpose%dd" % _rank] = transposed_convolution(_rank)
    TABLE["nn.functional.max_pool%dd" % _rank] = max_pool(_rank)
    TABLE["nn.functional.avg_pool%dd" % _rank] = avg_pool(_rank)
    TABLE["nn.functional.adaptive_avg_pool%dd" % _rank] = adaptive_pool("avg", _rank)
    TABLE["nn.functional.adaptive_max_pool%dd" % _rank] = adaptive_pool("max", _rank)
    TABLE["nn.functional.max_unpool%dd" % _rank] = TABLE["nn.functional.max_unpool%dd.grad" % _rank] = max_unpool(_rank)


def interpolate(modes):

    def operator(
        x, size=None, scale_factor=None, mode=None, align_corners=None, recompute_scale_factor=None, antialias=False
    ):
        rank = x.ndim - 2
        mode = modes if mode is None else mode
        if size is not None:
            sizes = (size,) * rank if isinstance(size, int) else tuple(size)
        else:
            factors = (scale_factor,) * rank if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
            sizes = [math.floor(n * f) for n, f in zip(x.shape[2:], factors)]
            if (
                not recompute_scale_factor
                and any(n * f != s for n, f, s in zip(x.shape[2:], factors, sizes))
                and not (align_corners and mode not in ("nearest", "nearest-exact"))
            ):
                raise LeftOut("a scale_factor that is no ratio of sizes")
        if mode == "area":
            return adaptive_pool("avg", rank)(x, sizes)
        name = {"nearest-exact": "nearest_exact", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(
            mode, mode
        )
        names = ["size"] if rank == 1 else ["size" + axis for axis in AXES[rank]]
        options = {
            **dict(zip(names, sizes)),
            "mode": name,
            "align_corners": bool(align_corners),
            "antialias": antialias,
        }
        return std("interpolate%dd_%s" % (rank, LAYOUT[rank]), x, **options)

    return operator


for _mode in ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"):
    TABLE["nn.functional.interpolate." + _mode] = interpolate(_mode)


@covers("_upsample_bilinear2d_aa")
def upsample_bilinear2d_aa(x, output_size, align_corners, scale_factors=None, scales_h=None, scales_w=None):
    if align_corners:
        raise LeftOut("antialias with align_corners")
    if scales_h is not None or scales_w is not None:
        raise LeftOut("a scale_factor that is no ratio of sizes")
    return interpolate("bilinear")(
        x, None if output_size is None else tuple(output_size), scale_factors, antialias=True
    )


TABLE["nn.functional.upsample_nearest"] = interpolate("nearest")
TABLE["nn.functional.upsample_bilinear"] = lambda x, size=None, scale_factor=None: interpolate("bilinear")(
    x, size, scale_factor, align_corners=True
)


@covers("nn.functional.grid_sample")
def grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    if x.ndim != 4:
        raise LeftOut("three dimensions")
    if mode == "bicubic":
        raise LeftOut("mode=bicubic")
    return std("grid_sample", x, grid, mode=mode, padding_mode=padding_mode, align_corners=int(bool(align_corners)))


TABLE["grid_sampler_2d"] = lambda x, grid, mode, padding, align_corners: grid_sample(
    x, grid, ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding], align_corners
)


@covers("nn.functional.unfold")
def unfold(x, kernel_size, dilation=1, padding=0, stride=1):
    return batched(
        x,
        2,
        lambda z: std(
            "unfold", z, **per_axis(2, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
        ),
    )


def whole_images(x, operator):
    y = operator(x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:]))
    return y.reshape(*x.shape[:-3], *y.shape[-3:])


TABLE["nn.functional.pixel_shuffle"] = lambda x, upscale_factor: whole_images(
    x, lambda z: std("pixel_shuffle", z, upscale_factor=upscale_factor)
)
TABLE["nn.functional.pixel_unshuffle"] = lambda x, downscale_factor: whole_images(
    x, lambda z: std("pixel_unshuffle", z, downscale_factor=downscale_factor)
)
TABLE["nn.functional.channel_shuffle"] = lambda x, groups: std("channel_shuffle", x, groups=groups)


def padding(function):
    def operator(x, pad, mode=None, value=None):
        y = x
        for k in range(len(pad) // 2):
            before, after = pad[2 * k], pad[2 * k + 1]
            if before or after or not any(pad):
                axis = x.ndim - 1 - k
                shape = y.shape
                options = {"value": float(value)} if function == "pad_axis" and value is not None else {}
                y = std(
                    function,
                    y.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])),
                    before=before,
                    after=after,
                    **options,
                )
                y = y.reshape(*shape[:axis], y.shape[1], *shape[axis + 1:])
        return y
    return operator


TABLE["nn.functional.pad.constant"] = padding("pad_axis")
TABLE["constant_pad_nd"] = lambda x, pad, value=0: padding("pad_axis")(x, pad, value=value)
TABLE["nn.functional.pad.reflect"] = padding("pad_reflect_axis")
TABLE["nn.functional.pad.replicate"] = TABLE["nn.functional.pad.replicate_negative"] = padding("pad_edge_axis")
TABLE["nn.functional.pad.circular"] = padding("pad_circular_axis")


# Movement

@covers("flip")
def flip(x, dims):
    if dims == ():
        raise LeftOut("nothing to do")
    for dim in (dims,) if isinstance(dims, int) else dims:
        x = std("flip", x, start_dim=dim, end_dim=dim)
    return x


TABLE["fliplr"] = lambda x: flip(x, 1)
TABLE["flipud"] = lambda x: flip(x, 0)


@covers("roll")
def roll(x, shifts, dims=None):
    if dims is None or dims == ():
        return std("roll", x, shifts=shifts if isinstance(shifts, int) else shifts[0])
    for shift, dim in zip(*(((v,) if isinstance(v, int) else v) for v in (shifts, dims))):
        x = std("roll", x, shifts=shift, start_dim=dim, end_dim=dim)
    return x


@covers("narrow")
def narrow(x, dim, start, length):
    if isinstance(start, torch.Tensor):
        raise LeftOut("a start that is a tensor")
    return std("narrow", x, dim=dim, start=start, length=length)


@covers("diag_embed")
def diag_embed(x, offset=0, dim1=-2, dim2=-1):
    return std("diag_embed", x, offset=offset).movedim((-2, -1), (dim1, dim2))


@covers("tile")
def tile(x, dims):
    if not dims or not x.ndim:
        raise LeftOut("nothing to do")
    x = x.reshape(*[1] * (len(dims) - x.ndim), *x.shape)
    for axis, reps in enumerate(reversed(dims), 1):
        x = std("tile", x, reps=reps, dim=-axis)
    return x


@covers("nn.functional.one_hot")
def one_hot(x, num_classes=-1):
    classes = int(x.max()) + 1 if num_classes == -1 else num_classes
    return std("embedding.one_hot", x, torch.tensor(classes)).long()


@covers("nn.functional.embedding")
def embedding(weight, indices, **options):
    if (
        options.get("max_norm") is not None
        or options.get("padding_idx") is not None
        or options.get("scale_grad_by_freq")
        or options.get("sparse")
    ):
        raise LeftOut(", ".join(key for key, value in options.items() if value not in (None, False)))
    return std("embedding", indices, weight)


# Along a dimension

@covers("cumsum")
def cumsum(x, dim, dtype=None):
    refuse_dtype(dtype)
    return std("cumsum", at_least_1d(x), dim=dim).reshape(x.shape)


@covers("cumprod")
def cumprod(x, dim, dtype=None):
    refuse_dtype(dtype)
    return std("cumprod", at_least_1d(x), dim=dim).reshape(x.shape)


@covers("cummax")
def cummax(x, dim):
    return std("cummax", at_least_1d(x), dim=dim).reshape(x.shape), None   # None: of no interest here


@covers("cummin")
def cummin(x, dim):
    return std("cummin", at_least_1d(x), dim=dim).reshape(x.shape), None


@covers("diff")
def diff(x, n=1, dim=-1, prepend=None, append=None):
    beside = [each for each in (prepend, x, append) if each is not None]
    return std("diff", torch.cat(beside, dim) if n and len(beside) > 1 else x, n=n, dim=dim)


# Attention

@covers("nn.functional.scaled_dot_product_attention")
def scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p:
        raise LeftOut("dropout")
    heads = q.ndim > 2
    batch = torch.broadcast_shapes(*(t.shape[:-3] for t in (q, k, v)))
    given = [t.expand(*batch, *t.shape[-3:]) if heads else t[None] for t in (q, k, v)]
    mask, bias = (attn_mask, None) if attn_mask is not None and attn_mask.dtype == torch.bool else (None, attn_mask)
    y = std(
        "scaled_dot_product_attention", *given, mask, bias, is_causal=is_causal, scale=0 if scale is None else scale
    )
    return y if heads else y[0]


# Of one element, and of two that are broadcast

for _name in (
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf exp exp2 floor isfinite isinf isnan isneginf isposinf "
    "log log10 log2 logical_not neg rad2deg reciprocal round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan "
    "tanh trunc"
).split():
    elementwise(_name, _name)
elementwise("nn.functional.relu", "relu")
elementwise("logit", "logit", "eps")


def of_two(name: str, function: str = "", *names: str):
    """Numbers take the type that PyTorch gives them beside a tensor."""
    def operator(x, y, *values, **options):
        if not isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
            raise LeftOut("two numbers")
        wide = torch.result_type(x, y)
        x, y = (z if isinstance(z, torch.Tensor) else torch.tensor(z, dtype=wide) for z in (x, y))
        return std(function or name, x, y, **dict(zip(names, values)), **options)
    TABLE[name] = operator


for _name in (
    "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor eq fmax fmin fmod ge gt heaviside "
    "le logaddexp logaddexp2 logical_and logical_or logical_xor lt maximum minimum mul ne remainder floor_divide "
    "true_divide atan2 copysign gcd lcm igamma igammac"
).split():
    of_two(_name)
of_two("add")
of_two("sub")
of_two("rsub")
of_two("special.xlog1py", "xlog1py")
of_two("special.zeta", "zeta")
of_two("isclose", "isclose", "rtol", "atol", "equal_nan")
for _name, _mode in (("no", "none"), ("floor", "floor"), ("trunc", "trunc")):
    TABLE["div.%s_rounding%s" % (_name, "_mode" if _name == "no" else "")] = (
        lambda x, y, rounding_mode=None: std("divide", x, y, rounding_mode=rounding_mode or "none")
    )


@covers("where")
def where(x, condition, y):
    return std("where", condition, x, y)


@covers("masked_fill")
def masked_fill(x, mask, value):
    return std("masked_fill", x, mask, value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=x.dtype))


@covers("clamp")
def clamp(x, min=None, max=None):
    if any(z is not None and z.dtype != x.dtype for z in (min, max)):
        raise LeftOut("ends of another type")
    return std("clip", x, min, max)


@covers("lerp")
def lerp(x, y, weight):
    return std("lerp", x, y, weight if isinstance(weight, torch.Tensor) else torch.tensor(weight, dtype=x.dtype))


TABLE["addcmul"] = lambda x, a, b, value=1: std("addcmul", x, a, b, value=value)
TABLE["addcdiv"] = lambda x, a, b, value=1: std("addcdiv", x, a, b, value=value)


# Sums, extremes and order

def reduction(name: str, function: str = ""):
    def operator(x, dim=None, keepdim=False, dtype=None):
        refuse_dtype(dtype)
        return reduced(function or name, x, dim, keepdim)
    TABLE[name] = operator


for _name in "sum prod nansum any all count_nonzero argmax argmin".split():
    reduction(_name)
reduction("nanmean")


@covers("sort")
def sort(x, dim=-1, descending=False, stable=False):
    return tuple(y.reshape(x.shape) for y in std("sorted", at_least_1d(x), dim=dim, descending=descending))


@covers("msort")
def msort(x):
    return sort(x, 0)[0]


# the order of equal elements, which is that of their places here
REFERENCE["msort"] = lambda x: torch.sort(x, dim=0, stable=True)[0]
REFERENCE["sort"] = lambda x, dim=-1, descending=False, stable=True: torch.sort(
    x, dim=dim, descending=descending, stable=True
)


@covers("topk")
def topk(x, k, dim=-1, largest=True, sorted=True):
    if not x.ndim:
        raise LeftOut("a scalar")
    return std("topk", x, k=k, dim=dim, largest=largest)


def topk_in_order(x, k, dim=-1, largest=True, sorted=True):
    """Of equal elements PyTorch's topk may give any; here it is those that stand first."""
    values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
    return values.narrow(dim, 0, k), places.narrow(dim, 0, k)


REFERENCE["topk"] = topk_in_order


@covers("kthvalue")
def kthvalue(x, k, dim=-1, keepdim=False):
    return tuple(with_dims(y, x, (dim,), keepdim) for y in std("kthvalue", at_least_1d(x), k=k, dim=dim))


@covers("isin")
def isin(x, among):
    return std("isin", x, among.reshape(-1))


@covers("linalg.cross")
def cross(x, y, dim=-1):
    return std("cross", *torch.broadcast_tensors(x, y), dim=dim)


@covers("dist")
def dist(x, y, p=2):
    return std("dist", x, y, p=p)


# Dimensions

TABLE["flatten"] = lambda x, start_dim=0, end_dim=-1: std("flatten", x, start_dim=start_dim, end_dim=end_dim)
TABLE["unsqueeze"] = lambda x, dim: std("unsqueeze", x, dim=dim)


@covers("transpose")
def transpose(x, dim0, dim1):
    first, last = sorted(d % max(x.ndim, 1) for d in (dim0, dim1))
    if first == last:
        raise LeftOut("nothing to do")
    return std("swapaxes", x, dim0=first, dim1=last)


@covers("repeat_interleave")
def repeat_interleave(x, repeats, dim=None, output_size=None):
    if isinstance(repeats, torch.Tensor):
        raise LeftOut("repeats that are a tensor")
    ends = {} if dim is None else {"start_dim": dim, "end_dim": dim}
    return std("repeat", x, repeats=repeats, **ends)


@covers("linalg.vander")
def vander(x, N=None):
    return std("vander", at_least_1d(x), increasing=True, **({} if N is None else {"N": N}))


for _name in ("quantile", "nanquantile"):
    def _quantile(x, q, dim=None, keepdim=False, interpolation="linear", function=_name):
        if isinstance(q, torch.Tensor) and q.ndim:
            raise LeftOut("several parts at once")
        ends = {} if dim is None else {"start_dim": dim, "end_dim": dim}
        return std(function, x, q=float(q), interpolation=interpolation, keepdim=keepdim, **ends)
    TABLE[_name] = _quantile
