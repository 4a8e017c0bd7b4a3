"""The operations of samples/papers and their gradients, against the fastest way to write them in PyTorch that we know:
a sum over shifts for windows, matrix products of chunks for recurrences with a state, steps for those without. The
gradient of both sides begins with the forward pass."""
import pathlib

import numpy as np
import torch
from torch.nn import functional as F

import tilec
from harness import Race, group, rand
from recurrences import fading, gated_linear_attention, hgrn, state_space_duality

rows = group("papers")
PAPERS = pathlib.Path(__file__).resolve().parent.parent / "samples/papers"


def between(low, high, *shape):
    return (low + (high - low) * (rand(*shape) + 1) / 2).astype(np.float32)


def paper(name, sizes, make, peer, **define):
    """Two rows: `make()` gives the arguments, which `peer` takes as tensors."""
    def race(backward):
        program, arrays = tilec.load(PAPERS / f"{name}.tile", function=name, define=define), make()
        tensors = [torch.from_numpy(np.asarray(a)) for a in arrays]
        if not backward:
            return Race(lambda: program(*arrays), torch=lambda: peer(*tensors), tolerance=1e-3)
        program, seed = program.grad(), np.asarray(rand(*peer(*tensors).shape), np.float32)
        by = torch.from_numpy(seed)
        return Race(lambda: program(*arrays, seed), torch=lambda: gradient(peer, tensors, by), tolerance=1e-3)

    rows.add(f"{name} {sizes}")(lambda: race(False))
    rows.add(f"gradient of {name} {sizes}")(lambda: race(True))


def gradient(function, tensors, seed):
    """By all tensors of floats; a new graph each call, as a training step has it."""
    tensors = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
    with torch.enable_grad():
        return torch.autograd.grad(function(*tensors), [t for t in tensors if t.requires_grad], seed)


def shifts(image, size, dilation=1):
    """The `size` x `size` shifted views of image[…, y, x], with zeros outside."""
    h, w = image.shape[-2:]
    padded = F.pad(image, (dilation * (size // 2),) * 4)
    for j in range(size):
        for i in range(size):
            yield padded[..., dilation * j:dilation * j + h, dilation * i:dilation * i + w]


def natten(q, k, v, bias, size=7, dilation=2):
    inside = shifts(torch.ones(q.shape[1:3], dtype=torch.bool), size, dilation)
    keys, values = (shifts(t.movedim(-1, 1), size, dilation) for t in (k, v))
    q, r = q.movedim(-1, 1) * q.shape[-1] ** -0.5, size // 2
    biases = bias[:, r:r + size, r:r + size].flatten(1).unbind(1)
    scores = [
        ((q * key).sum(1) + b[:, None, None]).masked_fill(~seen, -torch.inf)
        for key, b, seen in zip(keys, biases, inside)
    ]
    weights = torch.stack(scores, -1).softmax(-1).unbind(-1)
    return sum(p[:, None] * value for p, value in zip(weights, values)).movedim(1, -1)


def correlation(a, b, size=9):
    return torch.stack([(a * s).mean(1) for s in shifts(b, size)], 1).unflatten(1, (size, size))


def involution(x, k):
    return sum(s * f[:, :, None] for s, f in zip(shifts(x, k.shape[2]), k.flatten(2, 3).unbind(2)))


def upfirdn(x, f):
    kernel = torch.outer(f, f).flip(0, 1)[None, None]
    y = F.conv_transpose2d(x.flatten(0, 1)[:, None], kernel, stride=2, padding=1, output_padding=1)
    return y.view(*x.shape[:2], *y.shape[2:])


def deformable_convolution(x, offset, mask, f):
    n, h, w, _ = x.shape
    kh, kw = f.shape[:2]
    y_at = torch.arange(h)[:, None, None, None] + torch.arange(kh)[:, None] - kh // 2 + offset[..., 0]
    x_at = torch.arange(w)[:, None, None] + torch.arange(kw) - kw // 2 + offset[..., 1]
    grid = torch.stack(((2 * x_at + 1) / w - 1, (2 * y_at + 1) / h - 1), -1).view(n, h * w, kh * kw, 2)
    taps = F.grid_sample(x.permute(0, 3, 1, 2), grid, align_corners=False) * mask.view(n, 1, h * w, kh * kw)
    return torch.einsum("ncpk,kco->npo", taps, f.flatten(0, 1)).view(n, h, w, -1)


def axial_attention(q, k, v, rq, rk, rv):
    t = torch.arange(q.shape[2])
    at = t - t[:, None] + len(t) - 1
    scores = q @ k.mT + torch.einsum("bhtd,tsd->bhts", q, rq[at]) + torch.einsum("bhsd,tsd->bhts", k, rk[at])
    p = scores.softmax(-1)
    return p @ v + torch.einsum("bhts,tse->bhte", p, rv[at])


def attention_sinks(q, k, v, slope, window=128, sinks=4):
    s = torch.arange(q.shape[2])
    distance = s[:, None] - s
    seen = (distance >= 0) & ((distance < window) | (s < sinks))
    bias = (-slope[:, None, None] * distance).masked_fill(~seen, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])


def selective_scan(x, dt, a, b, c, skip):
    states = fading(torch.exp(dt[..., None] * a), (dt * x)[..., None] * b[:, :, None])
    return torch.einsum("ntds,nts->ntd", states, c) + skip * x


def wkv(k, v, w, bonus):
    e = torch.exp(k - k.amax(1, keepdim=True))
    both = torch.stack((e * v, e), 2)
    state, states, decay = torch.zeros_like(both[:, 0]), [], torch.exp(-w)
    for step in both.unbind(1):
        states.append(state)
        state = torch.addcmul(step, decay, state)
    numerator, denominator = (torch.stack(states, 1) + torch.exp(bonus) * both).unbind(2)
    return numerator / denominator


def group_quantised(x, w, scale, zero, group=64):
    weights = (w.unflatten(1, (-1, group)).float() - zero[..., None].float()) * scale[..., None]
    return x @ weights.flatten(1).T


def monarch(x, r, l):
    z = torch.bmm(x.unflatten(1, (len(r), -1)).transpose(0, 1), r.mT)
    return torch.bmm(z.permute(2, 1, 0), l.mT).permute(1, 2, 0).flatten(1)


def triangle_update(a, b, g, w):
    z = torch.einsum("ikc,jkc->ijc", a, b)
    return (F.layer_norm(z, z.shape[-1:]) * torch.sigmoid(g)) @ w


def mixture_of_experts(x, gate, w1, w2, top=2):
    v, chosen = (x @ gate).topk(top, -1)
    p, y = v.softmax(-1), torch.zeros_like(x)
    for e in range(gate.shape[1]):
        t, k = (chosen == e).nonzero(as_tuple=True)
        y = y.index_add(0, t, p[t, k, None] * ((x[t] @ w1[e]).relu() @ w2[e]))
    return y


def batch_all_triplets(x, label, margin):
    n2, same = (x * x).sum(1), label[:, None] == label
    r = ((n2[:, None] + n2 - 2 * x @ x.T).clamp(min=0) + 1e-8).sqrt()
    a, p = (same & ~torch.eye(len(x), dtype=torch.bool)).nonzero(as_tuple=True)
    v = (r[a, p][:, None] - r[a] + margin).relu() * ~same[a]
    return v.sum() / (v > 0).sum().clamp(min=1)


paper("natten", "4x56x56x32 window 7x7", lambda: [*rand(3, 4, 56, 56, 32), rand(4, 13, 13)], natten, W=7, DIL=2)
paper("correlation", "64x64x96 offsets 9x9", lambda: [*rand(2, 1, 64, 64, 96)], correlation, R=4)
paper("involution", "2x4x16x56x56 taps 7x7", lambda: [rand(2, 4, 16, 56, 56), rand(2, 4, 7, 7, 56, 56)], involution)
paper("upfirdn", "32x64x64 up 2", lambda: [rand(1, 32, 64, 64), rand(4)], upfirdn)
paper(
    "deformable_convolution",
    "56x56 64 to 64 taps 3x3",
    lambda: [
        rand(1, 56, 56, 64),
        between(-3, 3, 1, 56, 56, 3, 3, 2),
        between(0, 1, 1, 56, 56, 3, 3),
        rand(3, 3, 64, 64),
    ],
    deformable_convolution,
)
paper("axial_attention", "56x8x56x16", lambda: [*rand(3, 56, 8, 56, 16), *rand(3, 111, 16)], axial_attention)
paper(
    "attention_sinks",
    "8x1024x64 window 128",
    lambda: [*rand(3, 1, 8, 1024, 64), between(0.01, 0.3, 8)],
    attention_sinks,
)
paper(
    "selective_scan",
    "256x256 states 16",
    lambda: [
        rand(1, 256, 256),
        between(0.01, 0.2, 1, 256, 256),
        between(-4, -0.5, 256, 16),
        *rand(2, 1, 256, 16),
        rand(256),
    ],
    selective_scan,
)
paper(
    "state_space_duality",
    "512x8x64 states 64",
    lambda: [rand(1, 512, 8, 64), between(0.01, 0.2, 1, 512, 8), between(-2, -0.5, 8), *rand(2, 1, 512, 64)],
    state_space_duality,
)
paper(
    "gated_linear_attention",
    "4x512x64x64",
    lambda: [*rand(3, 1, 4, 512, 64), between(-0.3, -0.01, 1, 4, 512, 64)],
    gated_linear_attention,
)
paper("wkv", "4x512x512", lambda: [*rand(2, 4, 512, 512), between(0.02, 1, 512), rand(512)], wkv)
paper("hgrn", "4x512x256", lambda: [*rand(2, 4, 512, 256)], hgrn)
paper(
    "group_quantised",
    "256x1024x1024 groups of 64",
    lambda: [
        rand(256, 1024),
        between(-127, 127, 1024, 1024).astype(np.int8),
        between(0.001, 0.1, 1024, 16),
        between(0, 20, 1024, 16).astype(np.uint8),
    ],
    group_quantised,
)
paper("monarch", "512x1024 blocks of 32", lambda: [rand(512, 1024), *rand(2, 32, 32, 32)], monarch)
paper("triangle_update", "96x96x64", lambda: [*rand(3, 96, 96, 64), rand(64, 64)], triangle_update)
paper(
    "mixture_of_experts",
    "512x128 2 of 8 of 256",
    lambda: [rand(512, 128), rand(128, 8), rand(8, 128, 256) / 11, rand(8, 256, 128) / 16],
    mixture_of_experts,
)
paper(
    "batch_all_triplets",
    "256x64 labels 16",
    lambda: [rand(256, 64), between(0, 15.99, 256).astype(np.int32), np.float32(0.7)],
    batch_all_triplets,
)
