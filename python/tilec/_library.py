"""The C library and the shapes of its structs (include/tilec/tilec.h), by ctypes. Nothing here decides anything."""
from __future__ import annotations

import ctypes as c
import os
import pathlib

VERSION = 1, 0, 0                                        # of the header that this file repeats
OK, PROGRAM_ERROR, ARGUMENT_ERROR, DEVICE_ERROR, TYPE_ERROR, INTERNAL_ERROR = 0, 1, 2, 3, 4, 70
TENSOR, INTEGER, REAL, ADD, UNSIGNED = 0, 1, 2, 3, 4


class DLDevice(c.Structure):
    _fields_ = [("device_type", c.c_int32), ("device_id", c.c_int32)]


class DLDataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", DLDevice), ("ndim", c.c_int32), ("dtype", DLDataType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class Diagnostic(c.Structure):
    _fields_ = [
        ("severity", c.c_int),
        ("code", c.c_char_p),
        ("message", c.c_char_p),
        ("file", c.c_char_p),
        ("line", c.c_int),
        ("column", c.c_int),
        ("end_line", c.c_int),
        ("end_column", c.c_int),
        ("hint", c.c_char_p),
    ]


class Define(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_double), ("text", c.c_char_p)]


class Size(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_int64)]


class Options(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("function", c.c_char_p),
        ("target", c.c_char_p),
        ("file_name", c.c_char_p),
        ("defines", c.POINTER(Define)),
        ("define_count", c.c_size_t),
        ("sizes", c.POINTER(Size)),
        ("size_count", c.c_size_t),
        ("threads", c.c_int),
        ("include", c.POINTER(c.c_char_p)),
        ("include_count", c.c_size_t),
        ("checked", c.c_int),
        ("kernels", c.c_size_t),
        ("plan", c.c_char_p),
        ("room", c.c_int64),
        ("cache", c.c_char_p),
        ("ranks", c.POINTER(Size)),
        ("rank_count", c.c_size_t),
    ]


class Argument(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("kind", c.c_int),
        ("tensor", c.POINTER(DLTensor)),
        ("integer", c.c_int64),
        ("real", c.c_double),
    ]


class Port(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", DLDataType), ("ndim", c.c_int32), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64))]


class Cost(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("operations", c.c_int64),
        ("exact", c.c_int),
        ("bytes_read", c.c_int64),
        ("bytes_written", c.c_int64),
        ("milliseconds", c.c_double),
        ("memory_bytes", c.c_double),
    ]


class TuneProgress(c.Structure):
    _fields_ = [
        ("elapsed", c.c_double),
        ("seconds", c.c_double),
        ("measured", c.c_size_t),
        ("first", c.c_double),
        ("best", c.c_double),
    ]


GoesOn = c.CFUNCTYPE(c.c_int, c.POINTER(TuneProgress), c.c_void_p)


class TuneOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("seconds", c.c_double), ("goes_on", GoesOn), ("user", c.c_void_p)]


class Stage(c.Structure):
    _fields_ = [("name", c.c_char_p), ("description", c.c_char_p), ("target", c.c_char_p), ("is_text", c.c_int)]


class Interpreter(c.Structure):
    _fields_ = [("header", c.c_size_t)] + [
        (name, c.c_void_p)
        for name in (
            "array_type",
            "float_type",
            "none",
            "increase",
            "decrease",
            "call",
            "new_tuple",
            "set_item",
            "error",
            "save_thread",
            "restore_thread",
        )
    ]


def _find() -> str:
    """TILEC_LIBRARY, beside this package (a wheel), or the build folder of a checkout."""
    here = pathlib.Path(__file__).resolve().parent
    asked = os.environ.get("TILEC_LIBRARY")
    candidates = (
        [pathlib.Path(asked)] if asked else [here / "libtilec.so", here.parent.parent / "build/runtime/libtilec.so"]
    )
    for candidate in candidates:
        if candidate.exists():
            return str(candidate)
    raise ImportError("libtilec.so is not at %s; build it with `./dev build` or set TILEC_LIBRARY"
                      % " or ".join(str(p) for p in candidates))


def _declared(library: c.CDLL, signatures: dict) -> c.CDLL:
    for name, (result, parameters) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
    return library


def _load() -> c.CDLL:
    library = c.CDLL(_path)
    number = library.tilec_version()
    found = number // 10000, number // 100 % 100, number % 100
    if found[0] != VERSION[0] or found[1] < VERSION[1]:
        raise ImportError(
            "%s is version %d.%d.%d; this package takes version %d.%d and later ones before %d.0"
            % (_path, *found, *VERSION[:2], VERSION[0] + 1)
        )
    handle, text, count = c.c_void_p, c.c_char_p, c.c_size_t
    arguments = [c.POINTER(Argument), count]
    signatures = {
        "tilec_version": (c.c_int, []),
        "tilec_last_error": (text, []),
        "tilec_last_diagnostic_count": (count, []),
        "tilec_last_diagnostic": (c.c_int, [count, c.POINTER(Diagnostic)]),
        "tilec_last_diagnostic_text": (text, [count]),
        "tilec_compile": (c.c_int, [text, count, c.POINTER(Options), c.POINTER(handle)]),
        "tilec_parse": (c.c_int, [text, count, text, c.POINTER(text), count, c.POINTER(handle)]),
        "tilec_parse_saved": (c.c_int, [text, count, c.POINTER(handle)]),
        "tilec_file_texts": (c.c_int, [handle, c.POINTER(handle)]),
        "tilec_program_texts": (c.c_int, [handle, c.POINTER(handle)]),
        "tilec_file_destroy": (None, [handle]),
        "tilec_file_compile": (c.c_int, [handle, c.POINTER(Options), c.POINTER(handle)]),
        "tilec_file_function_count": (count, [handle]),
        "tilec_file_function_name": (text, [handle, count]),
        "tilec_standard_file_name": (text, [count]),
        "tilec_standard_file_text": (text, [count]),
        "tilec_gradient": (c.c_int, [handle, c.POINTER(text), count, c.POINTER(text), count, c.POINTER(handle)]),
        "tilec_jvp": (c.c_int, [handle, c.POINTER(text), count, c.POINTER(text), count, c.POINTER(handle)]),
        "tilec_value_and_gradient": (
            c.c_int,
            [handle, c.POINTER(text), count, c.POINTER(text), count, c.POINTER(handle)],
        ),
        "tilec_vmap": (c.c_int, [handle, c.POINTER(text), count, c.POINTER(handle)]),
        "tilec_vjp": (
            c.c_int,
            [
                handle,
                c.POINTER(text),
                count,
                c.POINTER(text),
                count,
                *arguments,
                *arguments,
                c.POINTER(handle),
                c.POINTER(handle),
            ],
        ),
        "tilec_with_plan": (c.c_int, [handle, text, count, c.POINTER(handle)]),
        "tilec_tune": (c.c_int, [handle, *arguments, c.POINTER(TuneOptions), c.POINTER(handle)]),
        "tilec_program_destroy": (None, [handle]),
        "tilec_program_name": (text, [handle]),
        "tilec_program_target": (text, [handle]),
        "tilec_input_count": (count, [handle]),
        "tilec_input_name": (text, [handle, count]),
        "tilec_input_is_optional": (c.c_int, [handle, count]),
        "tilec_input_at": (count, [handle, count, count]),
        "tilec_output_count": (count, [handle]),
        "tilec_output_name": (text, [handle, count]),
        "tilec_output_first": (count, [handle, count]),
        "tilec_specialize": (c.c_int, [handle, *arguments, *arguments, c.POINTER(handle)]),
        "tilec_infer": (c.c_int, [handle, *arguments, c.POINTER(handle)]),
        "tilec_kernel_destroy": (None, [handle]),
        "tilec_kernel_input_count": (count, [handle]),
        "tilec_kernel_input": (c.c_int, [handle, count, c.POINTER(Port)]),
        "tilec_kernel_output_count": (count, [handle]),
        "tilec_kernel_output": (c.c_int, [handle, count, c.POINTER(Port)]),
        "tilec_kernel_run": (c.c_int, [handle, handle, handle]),
        "tilec_kernel_run_on": (c.c_int, [handle, handle, handle, handle, handle]),
        "tilec_kernel_run_timed": (c.c_int, [handle, handle, handle, c.POINTER(c.c_double)]),
        "tilec_kernel_workspace": (count, [handle]),
        "tilec_kernel_device_workspace": (count, [handle]),
        "tilec_kernel_launch_count": (count, [handle]),
        "tilec_kernel_launch_name": (text, [handle, count]),
        "tilec_kernel_code_size": (count, [handle]),
        "tilec_estimate": (c.c_int, [handle, *arguments, c.POINTER(Cost)]),
        "tilec_save": (c.c_int, [handle, text, *arguments]),
        "tilec_save_call": (c.c_int, [handle, text, *arguments, *arguments]),
        "tilec_kernel_adds": (c.c_int, [handle, count]),
        "tilec_save_vjp": (c.c_int, [handle, c.POINTER(text), count, c.POINTER(text), count, text, *arguments]),
        "tilec_load_vjp": (c.c_int, [text, count, c.c_int, c.POINTER(handle), c.POINTER(handle)]),
        "tilec_load": (c.c_int, [text, count, c.c_int, c.POINTER(handle)]),
        "tilec_xla_text": (c.c_int, [handle, c.POINTER(handle)]),
        "tilec_stages": (c.POINTER(Stage), [c.POINTER(count)]),
        "tilec_emit": (c.c_int, [handle, text, *arguments, c.POINTER(handle)]),
        "tilec_buffer_data": (handle, [handle]),
        "tilec_buffer_size": (count, [handle]),
        "tilec_buffer_destroy": (None, [handle]),
    }
    return _declared(library, signatures)


def _load_python() -> c.PyDLL:
    """What looks at objects of Python, and keeps the GIL for that."""
    handle, count = c.c_void_p, c.c_size_t
    return _declared(
        c.PyDLL(_path),
        {
            "tilec_python_begin": (None, [c.POINTER(Interpreter)]),
            "tilec_python_exchange": (None, [handle, handle]),
            "tilec_python_calls_create": (handle, []),
            "tilec_python_calls_destroy": (None, [handle]),
            "tilec_python_calls_add": (
                c.c_int,
                [handle, handle, c.py_object, c.py_object, c.py_object, c.POINTER(c.c_int32), handle],
            ),
            "tilec_python_calls_used": (c.c_uint64, [handle, c.c_int]),
            "tilec_python_call": (c.py_object, [handle, c.py_object, c.py_object]),
        },
    )


_path = _find()
lib = _load()
python = _load_python()
capsule_pointer = c.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]


def made(handle: c.c_void_p) -> int:
    """The handle that a call wrote, which it does where it says that all is well."""
    assert handle.value is not None
    return handle.value


def taken(buffer: c.c_void_p) -> bytes:
    """What C made, as bytes of ours."""
    try:
        return c.string_at(lib.tilec_buffer_data(buffer), lib.tilec_buffer_size(buffer))
    finally:
        lib.tilec_buffer_destroy(buffer)
