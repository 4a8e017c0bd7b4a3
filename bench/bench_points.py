"""Executed inner points over valid points of strided gradients: counted by walking the kernels
(tests/codegen/points.h), not timed."""
import re
import subprocess

from harness import BUILD, Value, group

rows = group("points")
counted: dict = {}


def results():
    """`points NAME: executed E valid V idle I` lines of the test, run once."""
    if not counted:
        output = subprocess.run([BUILD / "tests/unit_codegen_points"], capture_output=True, text=True).stdout
        for name, executed, valid, idle in re.findall(
            r"^points (.*): executed (\d+) valid (\d+) idle (\d+)$", output, re.M
        ):
            counted[name] = Value(
                int(executed) / max(1, int(valid)),
                "executed / valid",
                f"and {int(idle) / int(valid):.1%} idle lanes at edges",
            )
    return counted


CASES = [(3, 2, 3, 2), (2, 1, 3, 1), (2, 1, 7, 3), (4, 1, 11, 2), (4, 2, 3, 2), (4, 3, 5, 6), (5, 3, 7, 9)]
for one in CASES:
    for rank in (1, 2):
        name = "%d-D stride %d dilation %d taps %d padding %d" % (rank, *one)
        rows.add(name, goal=1.0)(lambda name=name: results()[name])
