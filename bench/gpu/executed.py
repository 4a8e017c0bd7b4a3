"""Starts one row of rows.py, or of a JSON file, once, on memory that holds zeros, through whatever stands in for the
CUDA driver: executed.py ROW TARGET

gpu_static.py runs it on the simulated GPU of tests/simulated, which writes down what the launches ask of memory. Inputs
and outputs lie in the device's memory and are never touched by the host, so sizes for a device cost nothing.
"""
import ctypes as c
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import tilec  # noqa: E402
from tilec import _library as library  # noqa: E402
from tilec.errors import check  # noqa: E402
from rows import ROWS, Row  # noqa: E402

TYPES = {
    "float32": (library.DLDataType(2, 32, 1), 4),
    "bfloat16": (library.DLDataType(4, 16, 1), 2),
    "float16": (library.DLDataType(2, 16, 1), 2),
}


class Driver:
    """Memory of the first GPU."""

    def __init__(self):
        self.cuda, context = c.CDLL("libcuda.so.1"), c.c_void_p()
        for name, *arguments in (
            ("cuInit", 0),
            ("cuDevicePrimaryCtxRetain", c.byref(context), 0),
            ("cuCtxPushCurrent_v2", None),
        ):
            self.call(name, *(arguments if name != "cuCtxPushCurrent_v2" else [context]))

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status:
            text = c.c_char_p()
            self.cuda.cuGetErrorString(status, c.byref(text))
            raise SystemExit("%s: %s" % (name, (text.value or b"").decode()))

    def allocate(self, size) -> int:
        address = c.c_ulonglong()
        self.call("cuMemAlloc_v2", c.byref(address), c.c_size_t(max(size, 16)))
        return address.value


def arguments(names, shapes, dtype, keep):
    structs = (library.Argument * len(names))()
    for struct, name, shape in zip(structs, names, shapes):
        extents = (c.c_int64 * max(1, len(shape)))(*shape)
        tensor = library.DLTensor(None, library.DLDevice(1, 0), len(shape), dtype, extents, None, 0)
        struct.name, struct.kind, struct.tensor = name.encode(), library.TENSOR, c.pointer(tensor)
        keep += [extents, tensor]
    return structs, len(names)


def ports(kernel, count, get):
    found, port = [], library.Port()
    for k in range(count(kernel)):
        get(kernel, k, c.byref(port))
        found.append((port.dtype.bits // 8, tuple(port.shape[:port.ndim])))
    return found


def made(function, program, structs, *rest):
    kernel = c.c_void_p()
    check(function(program._handle, *structs, *rest, c.byref(kernel)))
    return kernel


def main(name, target):
    row = (
        Row(**json.loads(pathlib.Path(name).read_text(encoding="utf-8")))
        if name.endswith(".json")
        else next(row for row in ROWS if row.name == name)
    )
    lib, keep, (dtype, _) = library.lib, [], TYPES[row.dtype]
    program, shapes = tilec.compile(row.text, target=target), list(row.shapes)
    if row.wrt:
        forward = made(lib.tilec_infer, program, arguments(program.inputs, shapes, dtype, keep))
        shapes += [shape for _, shape in ports(forward, lib.tilec_kernel_output_count, lib.tilec_kernel_output)]
        program = program.grad(wrt=row.wrt)
    kernel = made(lib.tilec_specialize, program, arguments(program.inputs, shapes, dtype, keep), None, 0)
    driver = Driver()
    place = lambda of: (c.c_void_p * len(of))(
        *(driver.allocate(size * math.prod(shape)) for size, shape in of)
    )  # noqa: E731
    given, results = ports(kernel, lib.tilec_kernel_input_count, lib.tilec_kernel_input), ports(
        kernel, lib.tilec_kernel_output_count, lib.tilec_kernel_output
    )
    inputs, outputs = place(given), place(results)
    check(
        lib.tilec_kernel_run_on(
            kernel, inputs, outputs, driver.allocate(lib.tilec_kernel_device_workspace(kernel)), None
        )
    )
    driver.call("cuCtxSynchronize")
    print(
        json.dumps(
            {
                "ports": [
                    [address, size * math.prod(shape)]
                    for address, (size, shape) in zip([*inputs, *outputs], given + results)
                ]
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
