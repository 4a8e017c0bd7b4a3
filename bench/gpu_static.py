"""The kernels of the rows of gpu/rows.py, judged without a GPU: bench/run.py --gpu-static [WORD…] [--json FILE]

Read from the machine code: each row is compiled for sm_90a (NVRTC) and disassembled (nvdisasm). A line per kernel has its blocks and threads, registers
and shared memory (without what is asked for at launch), and of its busiest loop, the one with the most arithmetic: the share of multiply-adds and of
tensor cores, and how wide its accesses are: `LDG 128x3` is three of 128 bits.

Executed from the CUDA text, not from the machine code: eight blocks of each launch run on the simulated GPU of tests/simulated, spread over the launch, at
the row's own sizes. `sectors` are those of 32 bytes that a warp's load or store touches, and what share of their bytes it asked for; `banks` how
many times longer shared memory takes than without conflicts; of a row, what goes between blocks and the second cache (each block's own sectors once,
times the blocks) against its inputs and outputs. What wgmma reads is not counted; where NVRTC makes fewer accesses of the text than its
`__builtin_assume_aligned` say, it asks for less.

Rows that fail come first, then spills, then losses: the largest of both factors, and for rows bound by memory of the third.
"""

import collections
import importlib.util
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIMULATED = ROOT / "build/tests/simulated"
SECTOR = 32
TILEC = ROOT / "build/cli/tilec"
HEADING = re.compile(
    r'// (\d+) x (\d+) x (\d+) blocks of (\d+) threads\s+extern "C" __global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\('
)
LABEL, INSTRUCTION = re.compile(r"\s*(\.L\w+):"), re.compile(
    r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.a-z]+)\s*(.*?)\s*;"
)
MATH = {
    "FFMA",
    "DFMA",
    "HFMA2",
    "IMAD",
    "FADD",
    "FMUL",
    "DADD",
    "DMUL",
    "MUFU",
    "IDP",
    "HMMA",
    "IMMA",
    "HGMMA",
    "IGMMA",
    "FMNMX",
}
MULTIPLY_ADDS, TENSOR = {"FFMA", "DFMA", "HFMA2", "IDP"}, {"HMMA", "IMMA", "HGMMA", "IGMMA"}


class Missing(Exception):
    """A tool that is not on this machine."""


def tool(name):
    """On the path, in a CUDA toolkit, or beside Triton in this Python."""
    places = [shutil.which(name)]
    places += [
        str(pathlib.Path(os.environ[v]) / "bin" / name) for v in ("CUDA_HOME", "CUDA_PATH") if v in os.environ
    ] + ["/usr/local/cuda/bin/" + name]
    triton = importlib.util.find_spec("triton")
    if triton is not None:
        places.append(str(pathlib.Path(triton.origin).parent / "backends/nvidia/bin" / name))
    found = next((place for place in places if place and os.access(place, os.X_OK)), None)
    if found is None:
        raise Missing(f"{name} is not here: it comes with a CUDA toolkit, and with Triton (`pip install triton`)")
    return found


def output(*command, environment=None):
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode:
        raise RuntimeError(
            f"{command[0]}: {(done.stderr or done.stdout).strip().splitlines()[-1] if done.stderr or done.stdout else 'exit %d' % done.returncode}"
        )
    return done.stdout


def functions(text):
    """{kernel: [(label or None, opcode, operands)]} of nvdisasm -c."""
    found, code, label = {}, None, None
    for line in text.splitlines():
        if start := re.match(r"\.text\.(\S+):", line):
            code = found[start[1]] = []
        elif (mark := LABEL.match(line)) and code is not None:
            label = mark[1]
        elif (one := INSTRUCTION.match(line)) and code is not None:
            code.append((label, one[1], one[2]))
            label = None
    return found


def busiest_loop(code):
    """From the target of a branch backward to it: the shortest one that has half of the arithmetic of all; the whole
    code where none loops."""
    at = {label: k for k, (label, _, _) in enumerate(code) if label}
    spans = []
    for k, (_, opcode, operands) in enumerate(code):
        target = re.search(r"`\((\.L\w+)\)", operands)
        if opcode.startswith("BRA") and target and at.get(target[1], k) < k:
            spans.append((at[target[1]], k + 1))
    worth = lambda name: 100 if name in TENSOR else int(name in MATH)
    work = lambda span: sum(worth(opcode.split(".")[0]) for _, opcode, _ in code[span[0]:span[1]])
    most = max(map(work, spans), default=0)
    first, last = min(
        (s for s in spans if most and 2 * work(s) >= most), key=lambda s: s[1] - s[0], default=(0, len(code))
    )
    return code[first:last]


def width(opcode):
    if matrices := re.match(r"LDSM.*\.M88(?:\.(\d))?", opcode):
        return 32 * int(matrices[1] or 1)
    bits = re.search(r"\.(?:[US]?(8|16)|(64|128))(?:\.|$)", opcode)
    return int(bits[1] or bits[2]) if bits else 32


def figures(code):
    loop = [opcode for _, opcode, _ in busiest_loop(code) if opcode != "NOP"]
    share = lambda names: sum(opcode.split(".")[0] in names for opcode in loop) / max(len(loop), 1)
    widths = collections.defaultdict(collections.Counter)
    for opcode in loop:
        name = opcode.split(".")[0]
        if name in ("LDG", "STG", "LDS", "STS", "LDGSTS", "LDSM"):
            widths[name][width(opcode)] += 1
    return {
        "instructions": len(loop),
        "multiply_adds": share(MULTIPLY_ADDS),
        "tensor": share(TENSOR),
        "widths": {name: dict(count) for name, count in widths.items()},
        "spills": sum(opcode.split(".")[0] in ("LDL", "STL") for _, opcode, _ in code),
    }


def launches(row, folder):
    text, cubin = folder / "row.tile", folder / "row.cubin"
    usual = [
        "--target",
        "cuda:sm_90a",
        "--size",
        ",".join(f"{name}={extent}" for name, extent in sizes_of(row).items()),
    ]
    text.write_text(row.text + "\n", encoding="utf-8")
    if row.wrt:
        text.write_text(output(TILEC, "grad", text, "--wrt", ",".join(row.wrt)), encoding="utf-8")
    headings = {
        name: (int(x) * int(y) * int(z), int(threads))
        for x, y, z, threads, name in HEADING.findall(output(TILEC, text, "--emit=cuda", *usual))
    }
    output(TILEC, text, "--emit=cubin", "-o", cubin, *usual)
    used = {
        name: (int(registers), int(shared))
        for name, registers, shared in re.findall(
            r"Function (\S+):\s+REG:(\d+).*?SHARED:(\d+)", output(tool("cuobjdump"), "-res-usage", cubin)
        )
    }
    code = functions(output(tool("nvdisasm"), "-c", cubin))
    return [
        {
            "kernel": name,
            "blocks": blocks,
            "threads": threads,
            "registers": used[name][0],
            "shared": used[name][1],
            **figures(code[name]),
        }
        for name, (blocks, threads) in headings.items()
    ]


def executed(row, folder, blocks=8):
    """Of a row, or of a file that has one: (bytes of the inputs and outputs that some launch is given, {kernel: what
    its launches ask of memory}), of all blocks as those that ran have it."""
    report = folder / "report"
    environment = {
        "LD_LIBRARY_PATH": str(SIMULATED),
        "TILEC_NVRTC": str(SIMULATED),
        "TILEC_CACHE": "off",
        "SIMULATED_GPUS": "sm_90a",
        "SIMULATED_REPORT": str(report),
        "SIMULATED_BLOCKS": str(blocks),
    }
    said = output(
        sys.executable,
        ROOT / "bench/gpu/executed.py",
        row if isinstance(row, pathlib.Path) else row.name,
        "cuda:sm_90a",
        environment=environment,
    )
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    return sum(
        size for address, size in json.loads(said)["ports"] if any(address in line["arguments"] for line in lines)
    ), of_launches(lines)


def of_launches(lines):
    """{kernel: figures} of the report's lines."""
    kernels = {}
    for line in lines:
        figures = kernels.setdefault(line["kernel"], collections.Counter())
        scale = line["blocks"] / line["sampled"]
        figures.update(
            {
                "launches": 1,
                "blocks": line["blocks"],
                "moved": line["moved"] * scale,
                "wavefronts": line["shared"]["wavefronts"] * scale,
                "least wavefronts": line["shared"]["least"] * scale,
            }
        )
        for kind in ("loads", "stores"):
            figures.update({f"{kind} {name}": count * scale for name, count in line[kind].items()})
    return {name: dict(figures) for name, figures in kernels.items()}


def ratio(whole, part):
    return whole / part if part else 1.0


def losses(kernels, must, bound):
    """Of a row's executed kernels: factors over what would be without the loss, 1 where there is none."""
    total = collections.Counter()
    for kernel in kernels:
        total.update(kernel.get("executed", {}))
    found = {
        "sectors": ratio(
            SECTOR * (total["loads sectors"] + total["stores sectors"]), total["loads bytes"] + total["stores bytes"]
        ),
        "banks": ratio(total["wavefronts"], total["least wavefronts"]),
        "moved": ratio(total["moved"], must),
    }
    return found, max(found["sectors"], found["banks"], found["moved"] if bound == "memory" else 1.0)


def sizes_of(row):
    """The names that the text's inputs have for the row's extents."""
    heading = row.text[row.text.index("(") + 1:row.text.index(") ->")]
    named = re.findall(r"\w+\[([^\]]*)\]", heading)
    return {
        name.strip(): extent for names, shape in zip(named, row.shapes) for name, extent in zip(names.split(","), shape)
    }


def bytes_of(row):
    return sum(math.prod(shape) for shape in row.shapes) * (2 if row.dtype in ("float16", "bfloat16") else 4)


def line_of(kernel):
    widths = "  ".join(
        f"{name} " + " ".join(f"{bits}x{count}" for bits, count in sorted(counts.items(), reverse=True))
        for name, counts in kernel["widths"].items()
    )
    parts = [
        f"{kernel['blocks']} x {kernel['threads']}",
        f"{kernel['registers']} registers",
        f"{kernel['shared'] / 1024:.1f} KiB shared",
        f"loop of {kernel['instructions']}: {100 * kernel['multiply_adds']:.0f} % multiply-adds",
    ]
    if kernel["tensor"]:
        parts.append(f"{100 * kernel['tensor']:.0f} % tensor cores")
    if kernel["spills"]:
        parts.append(f"SPILLS {kernel['spills']}")
    return f"    {kernel['kernel']}: {', '.join(parts)}  {widths}" + (
        f"\n        {line_of_executed(kernel['executed'])}" if "executed" in kernel else ""
    )


def line_of_executed(figures):
    parts = [f"{figures['launches']} launches"] if figures["launches"] > 1 else []
    for kind in ("loads", "stores"):
        if requests := figures[f"{kind} requests"]:
            parts.append(
                f"{kind}: {figures[f'{kind} sectors'] / requests:.1f} sectors, {100 * figures[f'{kind} bytes'] / (SECTOR * figures[f'{kind} sectors']):.0f} % used"
            )
    if figures["wavefronts"]:
        parts.append(f"banks x{ratio(figures['wavefronts'], figures['least wavefronts']):.2f}")
    return ", ".join([*parts, f"moves {figures['moved'] / 1e6:.1f} MB"])


def heading_of(row):
    count, factors = len(row["kernels"]), row["losses"]
    ran = any("executed" in kernel for kernel in row["kernels"])
    return f"{row['row']}: {count} kernel{'s' * (count > 1)}, {row['bytes'] / 1e6:.1f} MB" + (
        f" in and out; sectors x{factors['sectors']:.2f}, banks x{factors['banks']:.2f}, moved x{factors['moved']:.2f}"
        if ran
        else " in"
    )


def main(words):
    """The exit status, and the rows."""
    sys.path.insert(0, str(ROOT / "bench/gpu"))
    import rows as gpu
    found = []
    for row in gpu.ROWS:
        if words and not any(word in row.name for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                kernels = launches(row, pathlib.Path(folder))
                must = bytes_of(row)
                if SIMULATED.exists():
                    must, figures_of = executed(row, pathlib.Path(folder))
                    kernels = [
                        {
                            **kernel,
                            **({"executed": figures_of[kernel["kernel"]]} if kernel["kernel"] in figures_of else {}),
                        }
                        for kernel in kernels
                    ]
            except Missing as missing:
                print(missing, file=sys.stderr)
                return 3, found
            except RuntimeError as fault:
                found.append({"row": row.name, "error": str(fault)})
                continue
        factors, loss = losses(kernels, must, row.bound)
        found.append(
            {
                "row": row.name,
                "bytes": must,
                "spills": sum(k["spills"] for k in kernels),
                "losses": factors,
                "loss": loss,
                "kernels": kernels,
            }
        )
    best = lambda r: max(max(k["multiply_adds"], k["tensor"]) for k in r["kernels"])
    found.sort(
        key=lambda r: (
            (0, 0) if "error" in r else (1, -r["spills"]) if r["spills"] else (2, -round(r["loss"], 2), best(r))
        )
    )
    for row in found:
        print(f"{row['row']}: {row['error']}" if "error" in row else heading_of(row))
        for kernel in row.get("kernels", []):
            print(line_of(kernel))
    if not SIMULATED.exists():
        print(f"not executed: {SIMULATED.relative_to(ROOT)} is not built")
    print(
        f"{len(found)} rows, {sum('error' in r for r in found)} failed, {sum(r.get('spills', 0) > 0 for r in found)} with spills"
    )
    return int(any("error" in r for r in found)), found
