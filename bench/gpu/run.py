"""Correctness, then speed, on a machine with a CUDA device, a driver and PyTorch: `./dev gpu` packs all that it needs.

    ./run                    everything: results/checks.json, results/rows.json, results/log
    ./run --only REGEX       rows whose name matches; no checks
    ./run --checks           correctness alone
    ./run --simulated        each row once, small, with NumPy arrays, held against PyTorch on the CPU: for a driver that is simulated, or with
                             --target opencl for OpenCL on a CPU

Exit status 1: something computed a wrong number. Slow rows fail nothing. Times are medians of CUDA events, ours and the peers' in turns.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUNDLE = HERE.parent                                   # of ./dev gpu: tilec, libtilec.so, python/, std/


def find_nvrtc() -> None:
    """Names NVRTC to tilec where only PyTorch's own is there."""
    if os.environ.get("TILEC_NVRTC"):
        return
    import torch
    site = pathlib.Path(torch.__file__).resolve().parent.parent
    found = sorted(
        glob.glob(str(site / "nvidia/*/lib/libnvrtc.so.*")) + glob.glob("/usr/local/cuda*/lib64/libnvrtc.so.*")
    )
    found = [path for path in found if "builtins" not in path and "alt" not in path]
    if found:
        os.environ["TILEC_NVRTC"] = found[-1]


class Log:
    def __init__(self, folder: pathlib.Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, open(folder / "log", "w", encoding="utf-8")

    def say(self, text: str) -> None:
        print(text, flush=True)
        print(text, file=self.file, flush=True)

    def keep(self, name: str, value) -> None:
        (self.folder / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def checks(log: Log) -> bool:
    """The cases of std/ on the device; some of them under compute-sanitizer, where it is installed."""
    found = {}
    files = sorted(glob.glob(str(BUNDLE / "std/*.tile")))

    def case(name: str, command: list[str]) -> None:
        ran = subprocess.run(command, capture_output=True, text=True)
        text = ran.stdout + ran.stderr
        last = text.strip().splitlines()[-1] if text.strip() else ""
        found[name] = {"status": ran.returncode, "last": last}
        log.say(f"{'ok    ' if ran.returncode == 0 else 'FAILED'} {name}: {last}")
        if ran.returncode:
            print(text, file=log.file, flush=True)

    tilec = str(BUNDLE / "tilec")
    case("std", [tilec, "test", "--target", "cuda", "--threads", "4", *files])
    sanitizer = shutil.which("compute-sanitizer") or next(
        iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None
    )
    if sanitizer:
        for tool in ("memcheck", "racecheck"):
            for name in ("linear", "conv", "norm", "softmax"):
                file = BUNDLE / f"std/{name}.tile"
                if file.exists():
                    case(
                        f"{tool} {name}",
                        [
                            sanitizer,
                            "--tool",
                            tool,
                            "--error-exitcode",
                            "9",
                            tilec,
                            "test",
                            "--target",
                            "cuda",
                            "--threads",
                            "1",
                            str(file),
                        ],
                    )
    else:
        log.say("skip   compute-sanitizer: not installed")
    log.keep("checks.json", found)
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


class Made:
    """A row with its data: `ours` and `peers` are called without arguments."""

    def __init__(self, row, torch, tilec, device: str, target: str = "cuda"):
        self.row, self.torch = row, torch
        shapes = row.shapes if device == "cuda" else row.small
        torch.manual_seed(1)
        self.inputs = [
            torch.rand(shape, device=device).mul_(2).sub_(1).to(getattr(torch, row.dtype)) for shape in shapes
        ]
        program = tilec.compile(row.text, target=target)
        names = row.inputs_of_text()
        self.wrt = [self.inputs[names.index(name)] for name in row.wrt]
        arguments = list(self.inputs)
        if row.wrt:
            program = program.grad(wrt=row.wrt)
            with torch.no_grad():
                result = row.peer(torch, *self.inputs)
            self.cotangent = torch.rand_like(result)
            arguments.append(self.cotangent)
        as_given = (lambda x: x) if device == "cuda" else (lambda x: x.numpy() if x.dtype != torch.bfloat16 else x)
        given = [as_given(x.contiguous()) for x in arguments]
        self.ours = lambda: program(*given)

    def forward(self, function):
        return lambda: function(self.torch, *self.inputs)

    def peer(self, function=None):
        function = function or self.row.peer
        if not self.row.wrt:
            return self.forward(function)
        leaves = [x.detach().requires_grad_(any(x is w for w in self.wrt)) for x in self.inputs]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        result = function(self.torch, *leaves)

        def backward():
            found = self.torch.autograd.grad(result, wanted, self.cotangent, retain_graph=True)
            return found if len(found) > 1 else found[0]

        return backward


def seconds(torch, calls: dict, budget: float = 0.3) -> dict[str, float]:
    """Medians, in turns."""
    for call in calls.values():
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    times = {name: [] for name in calls}
    spent = 0.0
    while spent < budget or min(map(len, times.values())) < 5:
        for name, call in calls.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / 1e3)
            spent += times[name][-1]
    return {name: statistics.median(all_times) for name, all_times in times.items()}


def copy_bandwidth(torch) -> float:
    """Bytes a second, read and written, of a copy of 1 GiB."""
    a = torch.empty(1 << 28, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.numel() * 4 / seconds(torch, {"copy": lambda: b.copy_(a)})["copy"]


def bytes_of(torch, row) -> float:
    """That must move: inputs and results once."""
    size = torch.empty(0, dtype=getattr(torch, row.dtype)).element_size()
    inputs = sum(size * int(torch.Size(shape).numel()) for shape in row.shapes)
    names = row.inputs_of_text()
    with torch.no_grad():
        out = row.peer(
            torch, *[torch.empty(shape, device="meta", dtype=getattr(torch, row.dtype)) for shape in row.shapes]
        )
    results = out.numel() * out.element_size()
    return inputs + results + sum(size * int(torch.Size(row.shapes[names.index(name)]).numel()) for name in row.wrt)


def measure(log: Log, chosen, compiled: bool) -> bool:
    import torch
    import tilec
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    about = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "copy GB/s": copy_bandwidth(torch) / 1e9,
    }
    log.say(
        f"{about['device']}, PyTorch {about['torch']}, CUDA {about['cuda']}; a copy moves {about['copy GB/s']:.0f} GB/s"
    )
    log.say(f"{'row':46}{'ours us':>11}{'peer us':>11}  ratio   goal")
    rows, good = [], True
    for row in chosen:
        entry = {"name": row.name}
        rows.append(entry)
        try:
            made = Made(row, torch, tilec, "cuda")
            calls = {"ours": made.ours, "PyTorch": made.peer()}
            error = difference(torch, made.ours(), calls["PyTorch"]())
            entry["error"] = error
            if error > (2e-2 if row.dtype == "bfloat16" else 2e-3):
                raise ValueError(f"differs from PyTorch by {error:.1e} of the largest value")
            if compiled:
                function = torch.compile(lambda *inputs, peer=row.peer: peer(torch, *inputs))
                calls["torch.compile"] = made.peer(lambda _, *inputs: function(*inputs))
            entry["seconds"] = seconds(torch, calls)
            ours, peer = entry["seconds"]["ours"], min(
                value for name, value in entry["seconds"].items() if name != "ours"
            )
            entry |= {
                "ratio": peer / ours,
                "goal": row.goal,
                "TFLOP/s": row.flop(row.shapes) / ours / 1e12,
                "of copy": bytes_of(torch, row) / ours / (about["copy GB/s"] * 1e9),
            }
            share = f"{entry['of copy']:.0%} of a copy" if row.bound == "memory" else f"{entry['TFLOP/s']:.1f} TFLOP/s"
            log.say(
                f"{row.name:46}{ours * 1e6:11.1f}{peer * 1e6:11.1f}  {peer / ours:5.2f}  {row.goal:5.2f}  {'' if peer / ours >= row.goal else 'below '}{share}"
            )
        except Exception as fault:  # noqa: BLE001: the other rows go on
            good = False
            entry["fault"] = f"{type(fault).__name__}: {fault}"
            log.say(f"{row.name:46}FAILED {entry['fault'].splitlines()[0]}")
            print(entry["fault"], file=log.file, flush=True)
        log.keep("rows.json", {"about": about, "rows": rows})
    ratios = [entry["ratio"] for entry in rows if "ratio" in entry]
    if ratios:
        log.say(
            f"gpu: {len(ratios)} rows, geomean peer / ours {statistics.geometric_mean(ratios):.2f}, worst {min(ratios):.2f}"
        )
    return good


def simulated(log: Log, chosen, target: str) -> bool:
    import torch
    import tilec
    good = True
    for row in chosen:
        if row.dtype != "float32":
            log.say(f"skip   {row.name}: NumPy has no {row.dtype}")
            continue
        made = Made(row, torch, tilec, "cpu", target)
        error = difference(torch, made.ours(), made.peer()())
        good = good and error < 1e-4
        log.say(f"{'ok    ' if error < 1e-4 else 'FAILED'} {row.name}: differs by {error:.1e} of the largest value")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--target", default="cuda", help="of --simulated")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--out", default="results", type=pathlib.Path)
    options = parser.parse_args()
    log = Log(options.out)
    find_nvrtc()
    sys.path.insert(0, str(HERE))
    from rows import ROWS
    chosen = [row for row in ROWS if re.search(options.only, row.name)]
    if options.simulated:
        return 0 if simulated(log, chosen, options.target) else 1
    good = bool(options.only) or checks(log)
    if options.checks:
        return 0 if good else 1
    return 0 if measure(log, chosen, not options.no_compile) and good else 1


if __name__ == "__main__":
    sys.exit(main())
