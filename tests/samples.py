"""Every sample on the interpreter, the CPU and OpenCL, forward and gradient, each checked; the numbers themselves against NumPy.

samples.py [--tilec PATH] [WORD ...]     a WORD selects samples whose name contains it
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
rng = np.random.default_rng(3)


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def windows(image, kh, kw, stride=1, dilation=1, pad=0, fill=0.0):
    """image[h, w, ...] -> [y, x, kh, kw, ...] with `fill` outside, by the plain definition."""
    image = np.pad(
        image.astype(np.float64), [(pad, pad), (pad, pad)] + [(0, 0)] * (image.ndim - 2), constant_values=fill
    )
    ys = range(0, image.shape[0] - dilation * (kh - 1), stride)
    xs = range(0, image.shape[1] - dilation * (kw - 1), stride)
    return np.array(
        [[[[image[y + dilation * j, x + dilation * i] for i in range(kw)] for j in range(kh)] for x in xs] for y in ys]
    )


def conv2d(a):
    s, d, p = a["S"], a["D"], a["P"]
    return np.einsum("yxjic,jico->yxo", windows(a["I"], *a["K"].shape[:2], s, d, p), a["K"])


def strided(a):
    i, k = a["I"], a["K"]
    n, h, w, _ = i.shape
    out = np.zeros((n, h // 3, w // 3, k.shape[3]))
    for b, y, x in np.ndindex(n, h // 3, w // 3):
        for j, m in np.ndindex(*k.shape[:2]):
            if 3 * y + 2 * j < h and 3 * x + 2 * m < w:
                out[b, y, x] += i[b, 3 * y + 2 * j, 3 * x + 2 * m] @ k[j, m]
    return out


def depthwise(a):
    k = a["K"]
    return np.stack(
        [np.einsum("yxjic,jic->yxc", windows(image, *k.shape[:2], 1, 1, k.shape[0] // 2), k) for image in a["I"]]
    )


def max_pool(a):
    return np.stack([windows(image, 3, 3, 2, 1, 1, -np.inf).max((2, 3)) for image in a["I"]])


def layer_norm(a):
    x = a["X"].astype(np.float64)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + a["Eps"]) * a["Gamma"] + a["Beta"]


def attention(a):
    q, k, v = (a[n].astype(np.float64) for n in "QKV")
    return softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])) @ v


def batch_norm(a):
    x = a["X"].astype(np.float64)
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) / np.sqrt(variance + a["Eps"]) * a["Gamma"] + a["Beta"], mean, variance


def box_filter(a):
    return np.nanmean(windows(a["I"], 5, 5, 1, 1, 2, np.nan), (2, 3))


SAMPLES = {  # arguments, and what NumPy says of them
    "matmul": (dict(A=f(13, 9), B=f(9, 21)), lambda a: a["A"] @ a["B"]),
    "conv2d": (dict(I=f(15, 18, 3), K=f(3, 3, 3, 4), S=2, D=2, P=2), conv2d),
    "strided_conv": (dict(I=f(2, 13, 12, 3), K=f(3, 3, 3, 4)), strided),
    "depthwise": (dict(I=f(2, 7, 8, 5), K=f(3, 3, 5)), depthwise),
    "max_pool": (dict(I=f(2, 7, 9, 4)), max_pool),
    "softmax": (dict(X=f(7, 33)), lambda a: softmax(a["X"].astype(np.float64))),
    "layer_norm": (dict(X=f(6, 40), Gamma=f(40), Beta=f(40), Eps=1e-5), layer_norm),
    "attention": (dict(Q=f(2, 6, 8), K=f(2, 9, 8), V=f(2, 9, 5)), attention),
    "batch_norm": (dict(X=f(3, 4, 5, 6), Gamma=f(6), Beta=f(6), Eps=1e-5), batch_norm),
    "einsum": (dict(A=f(3, 4, 5), C=f(3, 5, 6), W=f(6)), lambda a: np.einsum("bik,bkj,j->bi", a["A"], a["C"], a["W"])),
    "cumsum": (dict(X=f(4, 19)), lambda a: np.cumsum(a["X"].astype(np.float64), 1)),
    "l1_distance": (dict(A=f(6, 7), B=f(5, 7)), lambda a: np.abs(a["A"][:, None].astype(np.float64) - a["B"]).sum(-1)),
    "box_filter": (dict(I=f(9, 11)), box_filter),
}


def outputs_of(path: pathlib.Path) -> list[str]:
    header = next(line for line in path.read_text().splitlines() if line.startswith("function"))
    return [name.strip().split()[-1] for name in header.split("->")[1].split("(")[1].split(")")[0].split(",")]


def run(tilec: str, words: list[str]) -> str:
    done = subprocess.run([tilec, "run", *words], capture_output=True, text=True, timeout=300)
    return "" if done.returncode == 0 else "exit %d\n%s%s" % (done.returncode, done.stdout, done.stderr)


def check_sample(tilec: str, name: str, folder: str) -> list[tuple[str, str]]:
    """(title, complaint) per check; an empty complaint is a pass."""
    path = ROOT / "samples" / (name + ".tile")
    arguments, numpy_says = SAMPLES[name]
    words = []
    for key, value in arguments.items():
        if isinstance(value, np.ndarray):
            np.save("%s/%s.npy" % (folder, key), value)
        words.append("%s=%s" % (key, "%s/%s.npy" % (folder, key) if isinstance(value, np.ndarray) else value))
    wanted = numpy_says(arguments)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    results = []
    for target in ("cpu", "reference", "opencl"):
        outputs = ["%s=%s/out_%s.npy" % (o, folder, o) for o in outputs_of(path)]
        complaint = run(tilec, [str(path), "--target", target, "--check", *words, *outputs])
        for output, value in zip(outputs_of(path), wanted) if not complaint else []:
            got = np.load("%s/out_%s.npy" % (folder, output))
            if got.shape != value.shape or not np.allclose(got, value, rtol=2e-5, atol=2e-5):
                complaint += "%s differs from NumPy: shapes %s and %s, most by %g\n" % (
                    output,
                    got.shape,
                    value.shape,
                    np.abs(got - value).max() if got.shape == value.shape else np.nan,
                )
        results.append(("%s on %s" % (name, target), complaint))
    for target in ("cpu", "opencl"):
        cotangents = ["d%s=random:%sxf32" % (o, "x".join(map(str, v.shape))) for o, v in zip(outputs_of(path), wanted)]
        wrt = ",".join(k for k, v in arguments.items() if isinstance(v, np.ndarray))
        complaint = run(
            tilec,
            [str(path), "--target", target, "--grad", "--wrt", wrt, "--check", "--grad-check", *words, *cotangents],
        )
        results.append(("gradient of %s on %s" % (name, target), complaint))
    return results


def check_aot_c(tilec: str, folder: str) -> list[tuple[str, str]]:
    """samples/aot_c, by the commands in its main.c, for each kind of file that `build` writes."""
    here, results = ROOT / "samples/aot_c", []
    sizes = "N=1,H=56,W=56,CI=16,KH=3,KW=3,CO=32"
    for output in ("conv.o", "conv.a", "conv.so"):
        for sources in (["main.c"], ["main.c", "threads.c"]):
            commands = [
                [tilec, "build", str(here / "conv.tile"), "--size", sizes, "-o", output],
                [
                    "cc",
                    "-std=c11",
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    "-I.",
                    *(str(here / name) for name in sources),
                    "./" + output,
                    "-lm",
                    "-pthread",
                ],
                ["./a.out"],
            ]
            complaint = ""
            for command in commands:
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
                if done.returncode != 0:
                    complaint = "%s: exit %d\n%s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr)
                    break
            results.append(("aot_c: %s with %s" % (output, " ".join(sources)), complaint))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tilec", default=str(ROOT / "build/cli/tilec"))
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    options.tilec = os.path.abspath(options.tilec)         # a sample runs in a folder of its own
    os.environ.setdefault("POCL_CACHE_DIR", str(ROOT / "build/pocl"))
    passed = failed = 0
    missing = {p.stem for p in (ROOT / "samples").glob("*.tile")} - set(SAMPLES)
    for name in sorted(missing):
        print("FAIL %s: samples/%s.tile has no entry in tests/samples.py" % (name, name))
        failed += 1
    selected = [n for n in ("aot_c", *SAMPLES) if not options.words or any(w in n for w in options.words)]

    def check(name: str) -> list[tuple[str, str]]:
        with tempfile.TemporaryDirectory(prefix="tilec-sample-") as folder:
            if name == "aot_c":
                return check_aot_c(options.tilec, folder)
            return check_sample(options.tilec, name, folder)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for results in pool.map(check, selected):
            for title, complaint in results:
                passed, failed = passed + (not complaint), failed + bool(complaint)
                if complaint:
                    print("FAIL %s\n%s" % (title, complaint))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
