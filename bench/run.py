"""Measures tilec against its peers, or some of it: bench/run.py [WORD…] [--threads N] [--quick] [--busy] [--json FILE] [--markdown FILE]
or random contractions against the roof of one core (scan.py): bench/run.py --scan [--seed N] [--count N] [--quick] [--busy] [--json FILE]
or predicted against measured times (model.py): bench/run.py --model [WORD…] [--seed N] [--count N] [--quick] [--busy] [--json FILE]
or what the machine code for a GPU says, without one (gpu_static.py): bench/run.py --gpu-static [WORD…] [--json FILE]

A WORD selects a group (gemm convolution gradients elementwise rows papers compile overhead embedding points) or every row whose title contains it.
Exit status 1 when a result was wrong; goals that were missed are shown, not an error.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness

GROUPS = [
    "gemm",
    "convolution",
    "gradients",
    "elementwise",
    "rows",
    "papers",
    "compile",
    "overhead",
    "embedding",
    "points",
]


def machine() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next(
            (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine()
        )
    return f"{model}, {os.cpu_count()} cores"


def markdown(head: list[str], rows: list[dict]) -> str:
    """Losses first, worst first; then the other rows in their order."""
    raced = sorted((r for r in rows if "ratio" in r), key=lambda r: r["ratio"])
    lost = [r for r in raced if r["ratio"] < 1]
    won = [r for r in rows if "ratio" in r and r["ratio"] >= 1]
    line = (
        lambda r: f"| {r['group']} | {r['title']} | {r['ours_ms']:.3f} | {r['peer']} {r['peers_ms'][r['peer']]:.3f} | **{r['ratio']:.2f}** | {goal(r)} |"
    )
    goal = lambda r: "" if r["goal"] is None else f"{r['goal']:g}{'' if harness.met(r) else ' missed'}"
    table = ["| group | row | ours, ms | best peer, ms | ratio | goal |", "|---|---|---|---|---|---|"]
    figures = ["| group | row | figure | goal |", "|---|---|---|---|"]
    figures += [
        f"| {r['group']} | {r['title']} | {r['value']:.3f} {r['unit']}{' (' + r['note'] + ')' if r['note'] else ''} | {goal(r)} |"
        for r in rows
        if "value" in r
    ]
    failed = [f"* {r['group']}: {r['title']}: {r['error']}" for r in rows if "error" in r]
    parts = [
        *head,
        "",
        "## Slower than the best peer",
        "",
        *table,
        *map(line, lost),
        "",
        "## As fast or faster",
        "",
        *table,
        *map(line, won),
        "",
        "## Figures",
        "",
        *figures,
    ]
    return "\n".join(parts + (["", "## Failed", "", *failed] if failed else [])) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, and less to rely on")
    parser.add_argument(
        "--busy",
        action="store_true",
        help="count this process's time on the core, not the clock: for one thread on a machine in use",
    )
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--scan", action="store_true", help="random contractions and their gradients, against the roof")
    parser.add_argument(
        "--model",
        action="store_true",
        help="predicted against measured times, the worst prediction first; words: gemm convolution gradients elementwise more random, or of titles",
    )
    parser.add_argument(
        "--gpu-static",
        action="store_true",
        help="registers, shared memory, blocks, multiply-adds and widths of accesses of the rows of bench/gpu, from their machine code; words: of their names",
    )
    parser.add_argument(
        "--gpu-scan",
        action="store_true",
        help="random contractions and their gradients on the simulated GPU: what they move, against an H100's roof",
    )
    parser.add_argument("--seed", type=int, default=1, help="of --scan, --gpu-scan and --model")
    parser.add_argument(
        "--count", type=int, help="of --scan, --gpu-scan and --model: how many contractions (150, 40, 20)"
    )
    options = parser.parse_args()
    if options.scan and (options.words or options.threads != 1 or options.markdown):
        parser.error("--scan takes --seed, --count, --quick, --busy and --json")
    if options.busy and options.threads != 1:
        parser.error("--busy counts one thread")
    if options.model and (options.scan or options.threads != 1 or options.markdown):
        parser.error("--model takes words, --seed, --count, --quick, --busy and --json")
    if options.gpu_static:
        import gpu_static
        status, rows = gpu_static.main(options.words)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return status
    if options.gpu_scan:
        import gpu_scan
        status, rows = gpu_scan.main(options.seed, options.count or 40)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return status
    harness.environment(options.threads)
    harness.clock = time.process_time if options.busy else time.perf_counter
    import numpy
    if options.scan:
        import scan
        print(
            f"{machine()}; 1 thread; {time.strftime('%Y-%m-%d %H:%M')}; NumPy {numpy.__version__}; load {os.getloadavg()[0]:.1f} at the start"
            f"{', quick' if options.quick else ''}{', time on the core' if options.busy else ''}",
            flush=True,
        )
        status, rows = scan.main(options.seed, options.count or 150, options.quick)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return status
    if options.model:
        import model
        status, rows = model.main(options.words, options.seed, options.count or 20, options.quick)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return status
    import torch
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    for name in GROUPS:
        __import__(f"bench_{name}")
    head = [
        f"{machine()}; {options.threads} thread(s); {time.strftime('%Y-%m-%d %H:%M')}; NumPy {numpy.__version__}, PyTorch {torch.__version__}; "
        f"load {os.getloadavg()[0]:.1f} at the start{', quick' if options.quick else ''}{', time on the core' if options.busy else ''}"
    ]
    print(head[0], flush=True)
    if os.getloadavg()[0] > 1.5 and not options.busy:
        print("the machine is busy: do not rely on these figures", flush=True)
    rows = []
    for name in GROUPS:
        for title, make, goal in harness.groups[name].cases:
            if options.words and name not in options.words and not any(word in title for word in options.words):
                continue
            row = {"group": name, "title": title, "goal": goal}
            try:
                row.update(harness.measure(make, 0.06 if options.quick else 0.6))
            except Exception as fault:  # noqa: BLE001: a row that cannot run is a result too, the others go on
                row["error"] = f"{type(fault).__name__}: {str(fault).splitlines()[0] if str(fault) else ''}"
            rows.append(row)
            print(harness.show(row), flush=True)
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if ratios:
        print(
            f"geometric mean of {len(ratios)} ratios {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}; {sum(r < 1 for r in ratios)} below 1; "
            f"{sum(harness.met(r) is False for r in rows)} goals missed"
        )
    if options.json:
        pathlib.Path(options.json).write_text(
            json.dumps({"head": head, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )
    if options.markdown:
        pathlib.Path(options.markdown).write_text(markdown(head, rows), encoding="utf-8")
    return 1 if any("error" in r for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
