"""Convolutions as both sides spell them, shared by forward and gradient rows."""
import torch

import tilec

NHWC = """function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {
  O[n, y, x, co: N, (H + 2*P - KH) / S + 1, (W + 2*P - KW) / S + 1, CO] = +(I[n, S*y + j - P, S*x + i - P, ci] * K[j, i, ci, co]);
}"""
NCHW = """function (I[N, CI, H, W], K[CO, CI, KH, KW]) -> (O) {
  O[n, co, y, x: N, CO, (H + 2*P - KH) / S + 1, (W + 2*P - KW) / S + 1] = +(I[n, ci, S*y + j - P, S*x + i - P] * K[co, ci, j, i]);
}"""


def text(layout, stride, pad):
    return (
        layout.replace("S*", f"{stride}*")
        .replace("/ S", f"/ {stride}")
        .replace("2*P", str(2 * pad))
        .replace("- P", f"- {pad}")
    )


def program(layout, stride, pad):
    return tilec.compile(text(layout, stride, pad))


def image(array):
    """NHWC memory as PyTorch sees it: channels first, channels innermost in memory."""
    return torch.from_numpy(array).permute(0, 3, 1, 2)


def filters(array):
    """[KH, KW, CI, CO] as PyTorch's [CO, CI, KH, KW] in channels_last memory, its fastest."""
    return torch.from_numpy(array).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


def to_nhwc(array):
    return array.transpose(0, 2, 3, 1)


# (extent, channels in, channels out, taps, stride, padding) of ResNet-50
RESNET = [
    (224, 3, 64, 7, 2, 3),
    (56, 64, 64, 1, 1, 0),
    (56, 64, 64, 3, 1, 1),
    (56, 64, 256, 1, 1, 0),
    (56, 128, 128, 3, 2, 1),
    (56, 256, 512, 1, 2, 0),
    (28, 128, 128, 3, 1, 1),
    (28, 512, 128, 1, 1, 0),
    (14, 256, 256, 3, 1, 1),
    (14, 1024, 256, 1, 1, 0),
    (7, 512, 512, 3, 1, 1),
]


def title(x, ci, co, k, s, p):
    return f"{k}x{k}{'' if s == 1 else f' stride {s}'} {ci}->{co} at {x}x{x}"


def flop(x, ci, co, k, s, p):
    out = (x + 2 * p - k) // s + 1
    return 2 * out * out * k * k * ci * co
