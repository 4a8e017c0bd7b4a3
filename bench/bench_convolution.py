"""Convolutions forward against PyTorch (oneDNN): ResNet-50's shapes with channels last and first, depthwise, and
pooling."""
import torch

import tilec
from convolutions import NCHW, NHWC, RESNET, filters, flop, image, program, title, to_nhwc
from harness import Race, group, rand

rows = group("convolution")


def nhwc(shape, goal=None):
    @rows.add(f"NHWC {title(*shape)}", goal=goal)
    def _():
        x, ci, co, k, s, p = shape
        conv, I, K = program(NHWC, s, p), rand(1, x, x, ci), rand(k, k, ci, co)
        tI, tK = image(I), filters(K)
        return Race(
            lambda: conv(I, K),
            torch=lambda: torch.conv2d(tI, tK, stride=s, padding=p),
            shape=to_nhwc,
            flop=flop(*shape),
        )


def nchw(shape):
    @rows.add(f"NCHW {title(*shape)}")
    def _():
        x, ci, co, k, s, p = shape
        conv, I, K = program(NCHW, s, p), rand(1, ci, x, x), rand(co, ci, k, k)
        tI, tK = torch.from_numpy(I), torch.from_numpy(K)
        return Race(lambda: conv(I, K), torch=lambda: torch.conv2d(tI, tK, stride=s, padding=p), flop=flop(*shape))


for one in RESNET:
    nhwc(one, goal=0.6 if one == (56, 64, 64, 3, 1, 1) else None)
for one in [(224, 3, 64, 7, 2, 3), (56, 64, 64, 3, 1, 1), (56, 64, 256, 1, 1, 0), (28, 128, 128, 3, 1, 1)]:
    nchw(one)


@rows.add("depthwise 3x3 NHWC 128 at 56x56")
def _():
    conv = tilec.compile(
        "function (I[N, H, W, C], K[3, 3, C]) -> (O) { O[n, y, x, c: N, H, W, C] = +(I[n, y + j - 1, x + i - 1, c] * K[j, i, c]); }"
    )
    I, K = rand(1, 56, 56, 128), rand(3, 3, 128)
    tI, tK = image(I), torch.from_numpy(K).permute(2, 0, 1)[:, None].contiguous(memory_format=torch.channels_last)
    return Race(
        lambda: conv(I, K),
        torch=lambda: torch.conv2d(tI, tK, padding=1, groups=128),
        shape=to_nhwc,
        flop=2 * 9 * 128 * 56 * 56,
    )


@rows.add("depthwise 3x3 NCHW 128 at 56x56")
def _():
    conv = tilec.compile(
        "function (I[N, C, H, W], K[C, 3, 3]) -> (O) { O[n, c, y, x: N, C, H, W] = +(I[n, c, y + j - 1, x + i - 1] * K[c, j, i]); }"
    )
    I, K = rand(1, 128, 56, 56), rand(128, 3, 3)
    tI, tK = torch.from_numpy(I), torch.from_numpy(K)[:, None]
    return Race(
        lambda: conv(I, K), torch=lambda: torch.conv2d(tI, tK, padding=1, groups=128), flop=2 * 9 * 128 * 56 * 56
    )


@rows.add("grouped 3x3 NHWC 8 groups of 16 at 56x56")
def _():
    conv = tilec.compile("""function (I[N, H, W, G, CI], K[G, 3, 3, CI, CO]) -> (O) {
      O[n, y, x, g, co: N, H, W, G, CO] = +(I[n, y + j - 1, x + i - 1, g, ci] * K[g, j, i, ci, co]); }""")
    I, K = rand(1, 56, 56, 8, 16), rand(8, 3, 3, 16, 16)
    tI = image(I.reshape(1, 56, 56, 128))
    tK = torch.from_numpy(K).permute(0, 4, 3, 1, 2).reshape(128, 16, 3, 3).contiguous(memory_format=torch.channels_last)
    return Race(
        lambda: conv(I, K),
        torch=lambda: torch.conv2d(tI, tK, padding=1, groups=8),
        shape=lambda o: to_nhwc(o).reshape(1, 56, 56, 8, 16),
        flop=2 * 9 * 16 * 128 * 56 * 56,
    )


def pool(title, text, peer, nchw):
    @rows.add(title)
    def _():
        program = tilec.compile(text)
        I = rand(1, 64, 112, 112) if nchw else rand(1, 112, 112, 64)
        tI = torch.from_numpy(I) if nchw else image(I)
        return Race(lambda: program(I), torch=lambda: peer(tI), shape=(lambda o: o) if nchw else to_nhwc)


max_pool = lambda i: torch.nn.functional.max_pool2d(i, 3, 2, 1)
mean_pool = lambda i: torch.nn.functional.avg_pool2d(i, 2)
pool(
    "max pool 3x3 stride 2 NHWC",
    "function (I[N, H, W, C]) -> (O) { O[n, y, x, c: N, (H + 1) / 2, (W + 1) / 2, C] = >(I[n, 2*y + j - 1, 2*x + i - 1, c]), j < 3, i < 3; }",
    max_pool,
    False,
)
pool(
    "max pool 3x3 stride 2 NCHW",
    "function (I[N, C, H, W]) -> (O) { O[n, c, y, x: N, C, (H + 1) / 2, (W + 1) / 2] = >(I[n, c, 2*y + j - 1, 2*x + i - 1]), j < 3, i < 3; }",
    max_pool,
    True,
)
pool(
    "average pool 2x2 NHWC",
    "function (I[N, H, W, C]) -> (O) { S[n, y, x, c: N, H / 2, W / 2, C] = +(I[n, 2*y + j, 2*x + i, c]), j < 2, i < 2; O = S * 0.25; }",
    mean_pool,
    False,
)
pool(
    "average pool 2x2 NCHW",
    "function (I[N, C, H, W]) -> (O) { S[n, c, y, x: N, C, H / 2, W / 2] = +(I[n, c, 2*y + j, 2*x + i]), j < 2, i < 2; O = S * 0.25; }",
    mean_pool,
    True,
)
