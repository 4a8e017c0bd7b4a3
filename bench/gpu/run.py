"""Correctness, then speed, on a machine with a CUDA device, its driver and PyTorch: `./dev gpu` packs all that it needs.

    ./run                    everything: results/checks.json, results/rows.json, results/log
    ./run --only REGEX       rows whose name matches; no checks
    ./run --checks [FILE…]   correctness alone: the cases of all std/*.tile, or of these (softmax norm);
                             with --only REGEX the cases whose title matches
    ./run --scan SEED        random contractions and their gradients beside torch.einsum, and against the roof (--count of them)
    ./run --simulated        each row once, small, with arrays of the host, held against PyTorch on the CPU: for a driver that is simulated, or
                             with --target opencl for OpenCL on a CPU. All that a device's run does but its sizes and its clock

Python is python3, or what $PYTHON names. Exit status 1: something computed a wrong number or could not run; 2: there is no device, or no PyTorch
that reaches it. Slow rows fail nothing. Times are medians of CUDA events, ours and the peers' in turns.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BUNDLE = HERE.parent  # of ./dev gpu: tilec, libtilec.so, python/, std/
sys.path[:0] = [str(HERE), str(BUNDLE)]

from rows import FLOPS, ROWS, random_rows  # noqa: E402
TOOLKITS = "/usr/local/cuda*"
SANITIZED = ("linear", "conv", "norm", "softmax", "scan")  # files of std/ whose cases run under compute-sanitizer


class Missing(Exception):
    """What this machine lacks, and what to do about it."""


def find_pytorch():
    try:
        import torch
    except ImportError as fault:
        raise Missing(
            f"{sys.executable} cannot import PyTorch ({fault}): `pip install torch`, or name another Python in $PYTHON"
        )
    return torch


def find_nvrtc(cuda: str | None) -> None:
    """Names to tilec an NVRTC that lies where it does not look: PyTorch's own, of conda, of a toolkit without the plain link.
    The one of PyTorch's CUDA is taken before newer ones, which may be too new for the driver."""
    if os.environ.get("TILEC_NVRTC"):
        return
    places = [f"{TOOLKITS}/lib64", f"{sys.prefix}/lib"]
    if (torch := importlib.util.find_spec("torch")) and torch.origin:
        places.insert(0, f"{pathlib.Path(torch.origin).parent.parent}/nvidia/*/lib")
    found = [path for place in places for path in sorted(glob.glob(f"{place}/libnvrtc.so.*"))]
    version = lambda path: [int(part) for part in re.search(r"\.so\.([\d.]+)$", path)[1].split(".")]  # noqa: E731
    if found:
        wanted = int(cuda.split(".")[0]) if cuda else None
        best = max(found, key=lambda path: (version(path)[0] == wanted, version(path)))
        os.environ["TILEC_NVRTC"] = str(pathlib.Path(best).parent)


class Log:
    def __init__(self, folder: pathlib.Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, open(folder / "log", "w", encoding="utf-8")

    def say(self, text: str) -> None:
        print(text, flush=True)
        print(text, file=self.file, flush=True)

    def keep(self, name: str, value) -> None:
        (self.folder / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def find_device(log: Log, target: str) -> None:
    """What tilec finds here goes to the log; without the target's device nothing can run."""
    said = subprocess.run([BUNDLE / "tilec", "targets"], capture_output=True, text=True)
    print(said.stdout + said.stderr, file=log.file, flush=True)
    line = re.search(rf"^{target}\s+(.*)$", said.stdout, re.M)
    if not line or line[1].startswith("absent"):
        raise Missing(
            f"no device of target {target}: {line[1] if line else said.stderr.strip() or 'tilec does not know it'}"
        )
    log.say(f"{target}: {line[1]}")


def checks(log: Log, target: str, names: list[str], only: str) -> bool:
    """The cases of std/ and random programs on the device; some under compute-sanitizer, where it is installed."""
    found = {}
    files = {
        path.stem: str(path) for path in sorted((BUNDLE / "std").glob("*.tile")) if "\n// ==" in path.read_text("utf-8")
    }
    if unknown := [name for name in names if name not in files]:
        raise Missing(f"std/ has no {', '.join(unknown)}; it has {', '.join(files)}")
    chosen = names or list(files)

    def case(name: str, command: list[str]) -> None:  # beside others: most of it is compilation
        ran = subprocess.run(command, capture_output=True, text=True)
        if "Internal Sanitizer Error" in ran.stdout:  # it lost track of a launch, and counts that as a hazard
            ran = subprocess.run(command, capture_output=True, text=True)
        text = ran.stdout + ran.stderr
        last = text.strip().splitlines()[-1] if text.strip() else ""
        found[name] = {"status": ran.returncode, "last": last}
        log.say(f"{'ok    ' if ran.returncode == 0 else 'FAILED'} {name}: {last}")
        if ran.returncode:
            print(text, file=log.file, flush=True)
        log.keep("checks.json", found)

    test = [str(BUNDLE / "tilec"), "test", "--target", target, "--threads", "2", *(["--filter", only] if only else [])]
    cases = [(f"std/{name}", [*test, files[name]]) for name in chosen]
    if (random := BUNDLE / "random_programs").exists() and not names and not only:
        for seed, options in enumerate([[], [], [], ["--plans"], ["--plans"], ["--narrow"]], 1):
            command = [str(random), "--target", target, "--seed", str(seed), "--cases", "150", "--gradients", "50"]
            cases.insert(0, (" ".join(["random programs", str(seed), *options]), [*command, *options]))
    sanitizer = shutil.which("compute-sanitizer") or next(iter(glob.glob(f"{TOOLKITS}/bin/compute-sanitizer")), None)
    if sanitizer:
        for tool in ("memcheck", "racecheck"):
            for name in [name for name in SANITIZED if name in chosen]:
                cases.append(
                    (f"{tool} {name}", [sanitizer, "--tool", tool, "--error-exitcode", "9", *test, files[name]])
                )
    else:
        log.say("skip   compute-sanitizer: not installed")
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        list(pool.map(lambda one: case(*one), cases))
    if not any(re.search("[1-9]", one["last"]) for one in found.values()):
        raise Missing(f"no case's title matches {only}")
    return all(one["status"] == 0 for one in found.values())


def difference(torch, ours, theirs) -> float:
    """The largest error of an element, as a share of the largest value."""
    pairs = zip(
        ours if isinstance(ours, (tuple, list)) else [ours], theirs if isinstance(theirs, (tuple, list)) else [theirs]
    )
    return max(
        float(
            (torch.as_tensor(a).double().cpu() - b.double().cpu()).abs().max()
            / b.double().abs().max().cpu().clamp(min=1e-30)
        )
        for a, b in pairs
    )


class Place:
    """Where rows run: on a CUDA device of PyTorch, or on the host, small and once, through what stands in for a device."""

    def __init__(self, torch, target: str, simulated: bool):
        self.torch, self.target, self.simulated = torch, target, simulated
        self.device = "cpu" if simulated else "cuda"
        self.tolerance = {"float32": 1e-4 if simulated else 2e-3, "bfloat16": 2e-2}  # cuDNN transforms convolutions

    def about(self) -> dict:
        about = {"torch": self.torch.__version__, "target": self.target, "simulated": self.simulated}
        if self.simulated:
            return about | {"device": "the host"}
        torch = self.torch
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        return about | {"device": torch.cuda.get_device_name(), "cuda": torch.version.cuda}

    def target_of(self, row) -> str:
        return f"{self.target}:math={row.math}" if row.math and self.target.startswith("cuda") else self.target

    def allow(self, row) -> None:
        """What PyTorch may round factors to."""
        self.torch.backends.cuda.matmul.allow_tf32 = row.math == "tf32"

    def copy_bandwidth(self) -> float:
        """Bytes a second, read and written, of a copy of 1 GiB."""
        a = self.torch.empty(1 << (20 if self.simulated else 28), device=self.device)
        b = self.torch.empty_like(a)
        return 2 * a.numel() * 4 / self.seconds({"copy": lambda: b.copy_(a)})["copy"]

    def launches(self, call) -> dict[str, float]:
        """Seconds of each kernel on the device."""
        if self.simulated:
            return {}
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as seen:
            for _ in range(3):
                call()
            self.torch.cuda.synchronize()
        return {event.key: event.device_time_total / 3e6 for event in seen.key_averages() if event.device_time_total}

    def once(self, call, count: int) -> float:
        """Seconds of a call, of `count` in a row: what the host does beside them is hidden where it is less."""
        if self.simulated:
            begin = time.perf_counter()
            call()
            return time.perf_counter() - begin
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    def seconds(self, calls: dict, budget: float = 0.3, batch: float = 1e-3) -> dict[str, float]:
        """Medians, in turns."""
        if self.simulated:
            return {name: self.once(call, 1) for name, call in calls.items()}
        counts = {}
        for name, call in calls.items():
            self.once(call, 3)
            counts[name] = max(1, round(batch / self.once(call, 3)))
        times = {name: [] for name in calls}
        spent = 0.0
        while spent < budget or min(map(len, times.values())) < 5:
            for name, call in calls.items():
                times[name].append(self.once(call, counts[name]))
                spent += times[name][-1] * counts[name]
        return {name: statistics.median(all_times) for name, all_times in times.items()}


class Made:
    """A row with its data: `ours` and `peers` are called without arguments."""

    def __init__(self, row, tilec, place: Place):
        self.row, self.torch = row, place.torch
        torch, self.shapes = place.torch, row.small if place.simulated else row.shapes
        torch.manual_seed(1)
        self.inputs = [
            torch.rand(shape, device=place.device).mul_(2).sub_(1).to(getattr(torch, row.dtype))
            for shape in self.shapes
        ]
        program = tilec.compile(row.text, target=place.target_of(row))
        names = row.inputs_of_text()
        self.wrt = [self.inputs[names.index(name)] for name in row.wrt]
        if not row.wrt:
            self.ours = lambda: program(*self.inputs)
            return
        with torch.no_grad():
            result = row.peer(torch, *self.inputs)
        self.cotangent = torch.rand_like(result)
        given = self.cotangent.contiguous()
        # As autograd has it: forward ran before, and left what it keeps.
        _, backward = program.vjp(*self.inputs, wrt=row.wrt)
        self.ours = lambda: backward(given)

    def forward(self, function):
        return lambda: function(self.torch, *self.inputs).contiguous()

    def peer(self, function=None):
        """Results lie in memory as ours do: einsum's may be views of what lies otherwise."""
        function = function or self.row.peer
        if not self.row.wrt:
            return self.forward(function)
        leaves = [x.detach().requires_grad_(any(x is w for w in self.wrt)) for x in self.inputs]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        result = function(self.torch, *leaves)

        def backward():
            found = self.torch.autograd.grad(result, wanted, self.cotangent, retain_graph=True)
            found = [gradient.contiguous() for gradient in found]
            return found if len(found) > 1 else found[0]

        return backward


def bytes_of(torch, row, shapes) -> float:
    """That must move: inputs and results once."""
    size = torch.empty(0, dtype=getattr(torch, row.dtype)).element_size()
    inputs = sum(size * int(torch.Size(shape).numel()) for shape in shapes)
    names = row.inputs_of_text()
    with torch.no_grad():
        out = row.peer(torch, *[torch.empty(shape, device="meta", dtype=getattr(torch, row.dtype)) for shape in shapes])
    results = out.numel() * out.element_size()
    return inputs + results + sum(size * int(torch.Size(shapes[names.index(name)]).numel()) for name in row.wrt)


def measured(made: Made, place: Place, compiled: bool, bandwidth: float) -> dict:
    """What a row's JSON says; a wrong number is a ValueError."""
    torch, row = place.torch, made.row
    place.allow(row)
    calls = {"ours": made.ours, "PyTorch": made.peer()}
    entry = {"name": row.name, "error": difference(torch, made.ours(), calls["PyTorch"]())}
    if not entry["error"] <= place.tolerance[row.dtype]:  # nor NaN
        raise ValueError(f"differs from PyTorch by {entry['error']:.1e} of the largest value")
    if compiled:
        torch.compiler.reset()  # or the rows are one function, compiled again a few times and then no more
        function = torch.compile(lambda *inputs, peer=row.peer: peer(torch, *inputs))
        peer = made.peer(lambda _, *inputs: function(*inputs))
        try:
            peer()
            calls["torch.compile"] = peer
        except Exception as fault:  # noqa: BLE001: it has no such row; the others are measured
            entry["torch.compile"] = f"{type(fault).__name__}: {fault}"
    times = place.seconds(calls)
    ours, peer = times["ours"], min(value for name, value in times.items() if name != "ours")
    flop, moved = row.flop(made.shapes), bytes_of(torch, row, made.shapes)
    return entry | {
        "seconds": times,
        "ratio": peer / ours,
        "goal": row.goal,
        "TFLOP/s": flop / ours / 1e12,
        "of copy": moved / ours / bandwidth,
        "of roof": max(flop / FLOPS[row.dtype], moved / bandwidth) / ours,
        "launches": place.launches(made.ours),
    }


def line_of(row, entry: dict) -> str:
    share = {
        "memory": f"{entry['of copy']:.0%} of a copy",
        "arithmetic": f"{entry['TFLOP/s']:.1f} TFLOP/s",
        "roof": f"{entry['of roof']:.0%} of the roof",
    }[row.bound]
    ours, peer = entry["seconds"]["ours"], entry["ratio"] * entry["seconds"]["ours"]
    return f"{ours * 1e6:11.1f}{peer * 1e6:11.1f}  {entry['ratio']:5.2f}  {row.goal:5.2f}  {'' if entry['ratio'] >= row.goal else 'below '}{share}"


def measure(log: Log, chosen, place: Place, compiled: bool) -> bool:
    import tilec

    about = place.about()
    bandwidth = place.copy_bandwidth()
    about["copy GB/s"] = bandwidth / 1e9
    log.say(f"{about['device']}, PyTorch {about['torch']}; a copy moves {about['copy GB/s']:.0f} GB/s")
    log.say(f"{'row':52}{'ours us':>11}{'peer us':>11}  ratio   goal")
    rows, good = [], True
    for row in chosen:
        try:
            entry = measured(Made(row, tilec, place), place, compiled, bandwidth)
            log.say(f"{row.name:52}{'small ok' if place.simulated else line_of(row, entry)}")
        except Exception as fault:  # noqa: BLE001: the other rows go on
            good = False
            entry = {"name": row.name, "fault": f"{type(fault).__name__}: {fault}"}
            log.say(f"{row.name:52}FAILED {entry['fault'].splitlines()[0]}")
            print(entry["fault"], file=log.file, flush=True)
        rows.append(entry)
        log.keep("rows.json", {"about": about, "rows": rows})
    done = [entry for entry in rows if "ratio" in entry]
    ratios = [entry["ratio"] for entry in done]
    if ratios and not place.simulated:
        if roofs := sorted(entry["of roof"] for entry in done if entry["of roof"]):
            log.say(
                f"roof / ours: geomean {statistics.geometric_mean(roofs):.3f}, 5 % {roofs[len(roofs) // 20]:.3f}, worst {roofs[0]:.3f}"
            )
        log.say(
            f"gpu: {len(ratios)} rows, geomean peer / ours {statistics.geometric_mean(ratios):.2f}, worst {min(ratios):.2f}"
        )
    return good


def pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as fault:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {fault}")
    return text


def run(log: Log, options) -> bool:
    measures = options.checks is None
    rows = ROWS if options.scan is None else random_rows(options.scan, options.count, options.simulated)
    chosen = [row for row in rows if re.search(options.only, row.name)]
    if measures and not chosen:
        raise Missing(f"no row's name matches {options.only}; there are {', '.join(row.name for row in rows)}")
    torch = find_pytorch() if measures else None
    find_nvrtc(torch and torch.version.cuda)
    find_device(log, options.target)
    good = True
    if not measures or not (options.only or options.simulated or options.scan is not None):
        good = checks(log, options.target, options.checks or [], options.only)
    if not measures:
        return good
    if not options.simulated and not torch.cuda.is_available():
        raise Missing(
            f"PyTorch {torch.__version__} reaches no CUDA device: it may be built for CPUs, or for a newer driver;"
            " no row was measured"
        )
    compiled = not (options.simulated or options.scan is not None) if options.compile is None else options.compile
    return measure(log, chosen, Place(torch, options.target, options.simulated), compiled) and good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", type=pattern, metavar="REGEX", help="rows whose name matches; with --checks cases")
    parser.add_argument("--checks", nargs="*", metavar="FILE", help="correctness alone, of these files of std/")
    parser.add_argument("--scan", type=int, metavar="SEED", help="random contractions in place of the rows")
    parser.add_argument("--count", type=int, default=40, help="of --scan: how many, each with both its gradients")
    parser.add_argument("--simulated", action="store_true", help="rows small and once, on the host")
    parser.add_argument("--target", default="cuda", help="of --checks and --simulated")
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        help="torch.compile as a peer too (default: not --simulated)",
    )
    parser.add_argument("--out", default="results", type=pathlib.Path)
    options = parser.parse_args()
    log = Log(options.out)
    try:
        return 0 if run(log, options) else 1
    except Missing as lack:
        log.say(f"error: {lack}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
