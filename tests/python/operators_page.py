"""Writes docs/std/coverage.md, what std/ covers of ONNX's operators and PyTorch's functions: operators_page.py [--update]

The counts are of the node tests and samples as the tests find them; what is counted as compared is compared, by a few of each operator in `./dev test`
and by all of them with TILEC_OPERATOR_SAMPLES=all. test_operators_onnx.py and test_operators_torch.py look whether the page says so, with the versions
that it names.
"""

import collections
import pathlib
import re
import sys

import tilec

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/std/coverage.md"
HEAD = """# What is covered of ONNX and PyTorch

Written by `tests/python/operators_page.py`. The tests say an operator with the functions named here and compare it: with the outputs of ONNX's node tests, and with PyTorch on the
samples of its database of operators, values and gradients. Left out is what std/ has no option for. Reshaping, exchanging dimensions, broadcasting, a bias that is added, are done
around the call. Samples are those in f32, or i64 where there are none; of f64, f16 and bf16 there are as many or fewer.
"""

# Of the names in torch.nn.functional, torch, jax.numpy, jax.nn and ONNX those that users look for and std/ has by none.
REASONS = """## What is not there, and why

Of the names in `torch`, `torch.nn.functional`, `torch.special`, `torch.linalg`, NumPy, `jax.numpy`, `jax.nn` and ONNX's operators, those by which neither a function nor a comment of std/ goes: `tilec.std.NAME` and
`tilec run std:NAME` say which is near. Left out of the list are names of devices, of sparse and quantised storage, of tracing and of printing.

| why | names |
|---|---|
| sizes that data decide | nonzero, argwhere, flatnonzero, masked_select, compress, extract, unique and its kinds, unique_consecutive, union1d, intersect1d, setdiff1d, setxor1d, trim_zeros, insert, delete, histogram_bin_edges; NonZero, Compress, Unique, NonMaxSuppression |
| random numbers: `prng_step` of the language draws them | dropout and its kinds, rrelu, gumbel_softmax, fractional_max_pool2d, bernoulli, multinomial, normal, rand, randn, randint, randperm; Dropout, RandomNormal, RandomUniform |
| decompositions and what needs one | cholesky, qr, svd, svdvals, eig, eigvals, lu, ldl_factor, householder_product, solve, triangular_solve, tensorsolve, inverse, pinverse, lstsq, det, logdet, slogdet, matrix_exp, matrix_rank, cond, nuclear_norm, lobpcg, roots, polyfit; Det |
| complex numbers: pairs in std/complex.tile | complex, polar, real, imag, angle, conj, view_as_real, view_as_complex, stft, istft; STFT |
| not asked for yet | airy_ai |
| bits of floats | nextafter, spacing, frexp, packbits, unpackbits |
| polynomials of a degree that is an argument, each a text of its own | chebyshev_polynomial_t and its kinds, hermite_polynomial_h, laguerre_polynomial_l, legendre_polynomial_p, polyadd, polyder, polydiv, polyint, poly |
| data-dependent control, functions as arguments | cond, while_loop, vmap, vectorize, piecewise, apply_along_axis, triplet_margin_with_distance_loss; If, Loop, Scan, SequenceMap |
| the language says it | einsum, tensordot, chain_matmul, addbmm, reshape, resize, view, broadcast_to, expand, atleast_1d and its kinds, astype, shape, size, numel, renorm, select_scatter, slice_scatter, diagonal_scatter, choose, putmask, unravel_index, ravel_multi_index; Einsum, Reshape, Expand, Cast, Shape, Size, Range |
| made by NumPy or PyTorch as they stand | zeros, ones, full, empty, linspace, logspace, geomspace, meshgrid, indices, tril_indices, diag_indices, asarray, frombuffer, copy, clone; Constant, ConstantOfShape, EyeLike |
| as many results or inputs as the caller likes | hsplit, array_split, block, cartesian_prod, combinations; SplitToSequence, sequences |
| a text for each rank, which only Python has (`tilec.std`); `tilec run` takes a file with one line, `Y[b, a: B, A] = =(X[a, b]);` | permute, movedim, moveaxis, column_stack, vstack, hstack, dstack, chunk, unbind, unflatten, bincount, interpolate, lexsort, lists of tensors, dimensions that do not lie side by side |
| sizes that are no affine form | pdist |
| strings, images in files, trees of models | StringConcat, RegexFullMatch, ImageDecoder, TfIdfVectorizer, TreeEnsemble |
| another result where nothing is said in PyTorch and NumPy: a parameter has to be said | median (`lower_of_two`), var, std (`correction`), pad, norm (`vector_norm`) |
| another result by the same name, as its comment says | max, min, cummax and cummin along a dimension: the values alone, as in NumPy; unfold of a tensor: that of images; averages, bounds and factors that are fractions, of integers: numbers with a point |
| not yet | ctc_loss, grid_sample of three dimensions, RoiAlign, DeformConv, linear_cross_entropy, grouped_mm, scatter_reduce without the element that is there, segment_reduce, histogramdd, multi_head_attention_forward, quantised operators |
"""


class Counted:
    def __init__(self):
        self.functions: set = set()
        self.compared = 0
        self.left_out: "collections.Counter[str]" = collections.Counter()

    def __iadd__(self, found):
        """`found`: the function that is reached, or why none is."""
        function, reason = found
        if reason is None:
            self.functions.add(function)
            self.compared += 1
        else:
            self.left_out[reason] += 1
        return self


def family_of(function: str) -> str:
    return tilec.std._heading(function).family


def section(title: str, version: str, what: str, counted: "dict[str, Counted]", others: str) -> str:
    families: dict = {}
    for name, each in counted.items():
        families.setdefault(min(map(family_of, each.functions), default="none"), {})[name] = each
    compared, left = sum(each.compared for each in counted.values()), sum(
        sum(each.left_out.values()) for each in counted.values()
    )
    lines = [
        "## %s %s" % (title, version),
        "",
        "%d %s, %d %s compared, %d left out."
        % (
            sum(bool(each.compared) for each in counted.values()),
            "operators" if title == "ONNX" else "functions",
            compared,
            what,
            left,
        ),
        "",
        "| file | covered | functions of std/ | %s | left out |" % what,
        "|---|---|---|---|---|",
    ]
    for family in sorted(families):
        for name, each in sorted(families[family].items()):
            functions = ", ".join(
                "[`%s`](%s.md#%s)" % (own, family, own.lower())
                for family, own in sorted({(family_of(f), tilec.std._heading(f).name) for f in each.functions})
            )
            reasons = ", ".join("%s: %d" % item for item in sorted(each.left_out.items()))
            lines.append("| %s | `%s` | %s | %d | %s |" % (family, name, functions, each.compared, reasons))
    return "\n".join([*lines, "", others, ""])


def in_page(title: str) -> "tuple[str, str]":
    """The version that the page names, and its section."""
    found = re.search(r"^## %s (\S+)\n.*?(?=^## |\Z)" % title, PAGE.read_text(), re.M | re.S)
    return (found[1], found[0]) if found else ("", "")


if __name__ == "__main__":
    import test_operators_onnx
    import test_operators_torch
    sections = [test_operators_onnx.page_section(), test_operators_torch.page_section()]
    text = "\n".join([HEAD, *sections, REASONS]).rstrip() + "\n"
    if "--update" in sys.argv:
        PAGE.write_text(text)
    sys.exit(PAGE.read_text() != text and "docs/std/coverage.md is not what `%s --update` writes" % sys.argv[0])
