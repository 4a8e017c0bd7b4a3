# What `tilec bench --vs` starts as `python3 peer.py FOLDER`: a peer's own way to compute what a program does, run when
# asked.
#
# FOLDER holds spec.json, in0.npy … and what tilec computed, out0.npy … . Standard output has a line for each step:
# `ready VERSION ERROR`, or `missing`, `failed` or `differs` and why; then for each line N of standard input the seconds
# of N calls.
import ctypes
import json
import os
import signal
import sys
import time

signal.signal(signal.SIGINT, signal.SIG_DFL)            # Ctrl-C is for tilec: no traceback beside it
folder = sys.argv[1]
with open(folder + "/spec.json") as file:
    spec = json.load(file)
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)                                           # what libraries print is no answer


def answer(*words):
    print(*words, file=answers, flush=True)


def give_up(*words):
    answer(*(" ".join(str(word).split()) for word in words))
    sys.exit(0)


peer, threads = spec["peer"], spec["threads"]
if threads > 0:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # XLA asks for nothing else
for variable in [name for name in os.environ if name.startswith("OPENBLAS_") and name != "OPENBLAS_NUM_THREADS"]:
    del os.environ[variable]
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3             # freed memory is taken again: no call pays for pages
if hasattr(ctypes.CDLL(None), "mallopt"):
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 30)
    ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 2 ** 31 - 1)
try:
    import numpy
    if peer == "torch":
        import torch as module
        if threads > 0:
            module.set_num_threads(threads)
    elif peer == "jax":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax as module
        import jax.numpy
        module.config.update("jax_enable_x64", True)
    else:
        module = numpy
except ImportError as fault:
    give_up("missing", fault)

names = {"numpy": numpy, "np": numpy, peer: module}
if peer == "jax":
    names["jnp"] = jax.numpy


def tensor(number, dtype):
    array = numpy.load("%s/in%d.npy" % (folder, number))
    if peer == "torch":
        return module.from_numpy(array).to(getattr(module, dtype))
    if peer == "jax":
        return jax.numpy.asarray(array, dtype=dtype)
    return array if dtype == "bfloat16" else array.astype(dtype)


def results(value):
    """A result, or several, as arrays of NumPy."""
    items = value if isinstance(value, (tuple, list)) else [value]
    if peer == "torch":
        return [
            module.as_tensor(item)
            .detach()
            .to(module.float64 if module.as_tensor(item).is_floating_point() else module.as_tensor(item).dtype)
            .numpy()
            for item in items
        ]
    return [numpy.asarray(item) for item in items]


def compared(value):
    """The largest error of all results, as a part of the largest value of each. Integers are equal."""
    worst, found = 0.0, results(value)
    if len(found) != len(spec["outputs"]):
        give_up("differs", "it has %d results, where %d are computed" % (len(found), len(spec["outputs"])))
    for number, ((name, dtype), theirs) in enumerate(zip(spec["outputs"], found)):
        ours = numpy.load("%s/out%d.npy" % (folder, number))
        if ours.shape != theirs.shape:
            give_up("differs", "%s has shape %s, where %s is computed" % (name, theirs.shape, ours.shape))
        if not ours.size:
            continue
        if dtype not in tolerances:
            if (ours != theirs).any():
                give_up("differs", "%s has other integers" % name)
            continue
        ours, theirs = ours.astype("f8"), theirs.astype("f8")
        same = (ours == theirs) | (numpy.isnan(ours) & numpy.isnan(theirs))
        with numpy.errstate(invalid="ignore"):
            error = numpy.where(same, 0, abs(ours - theirs)).max() / max(
                abs(ours)[numpy.isfinite(ours)].max(initial=0), 1e-30
            )
        if not error <= tolerances[dtype]:
            give_up(
                "differs",
                "%s has an error of %.1e of its largest value, where %.0e is allowed"
                % (name, error, tolerances[dtype]),
            )
        worst = max(worst, error)
    return worst


tolerances = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
try:
    inputs = {name: tensor(number, dtype) for number, (name, dtype) in enumerate(spec["inputs"])}
    names.update(inputs)
    for name, text in spec["once"]:
        inputs[name] = names[name] = eval(compile(text, "<--vs>", "eval"), names)
    body = "".join("    %s = %s\n" % (name, text) for name, text in spec["lines"])
    for _, text in spec["lines"] + [["", spec["value"]]]:
        # an expression each: nothing that ends a line and begins another
        compile(text, "<--vs>", "eval")
    exec("def call(%s):\n%s    return (%s)\n" % (", ".join(inputs), body, spec["value"]), names)
    arguments, call = list(inputs.values()), names["call"]
    if peer == "jax":
        compiled = jax.jit(call)
        call = lambda *given: jax.block_until_ready(compiled(*given))
    error = compared(call(*arguments))
except Exception as fault:
    give_up("failed", "%s: %s" % (type(fault).__name__, fault))
answer("ready", module.__version__, "%.1e" % error)
for line in sys.stdin:
    count = range(int(line))
    start = time.perf_counter()
    for _ in count:
        call(*arguments)
    answer(repr(time.perf_counter() - start))
