"""What a text may cost before it runs: every program here is compiled, or refused by a limit that says how it is
raised, within 20 seconds of processor time and 2 GB of addresses, in a process of its own. Without shared structure,
linear passes and limits each took minutes or all memory;
on an idle machine each takes less than a quarter of the bound.
"""
import os
import resource
import subprocess

import pytest

from test_cli import TILEC

GRADIENT, CONTRACTION = ("--grad", "--emit=gradient"), ("--emit=contraction",)


def lines(count, text, first=0):
    return "\n".join(text.format(k=k, before="T%d" % (k - 1) if k > first else "A") for k in range(first, count))


def chain(count, text):
    """Y after `count` statements T0, T1 …, each of which reads the one before."""
    return "%s\n  Y = T%d;\n" % (lines(count, "  " + text), count - 1)


def listed(count, text, separator=", "):
    return separator.join(text.format(k=k) for k in range(count))


def nested(count, opening, closing, inner="A"):
    return opening * count + inner + closing * count


def functions(count, body, first="Y = X * 2.0;", inputs="X[N]"):
    """f0 with the body `first`, and each next one with `body`, which calls {g}."""
    return "\n".join(
        "function f%d(%s) -> (Y) { %s }" % (k, inputs, body.format(g="f%d" % (k - 1)) if k else first)
        for k in range(count)
    )


def band(count):
    names = ["i%d" % k for k in range(count)]
    return "function (A[N]) -> (O) { O[i0: N] = +(A[i0]), %s; }" % ", ".join(
        "0 <= %s - %s < 2" % (b, a) for a, b in zip(names, names[1:])
    )


def ranks(count):
    return listed(count, "N{k}")


def one(body, inputs="A[N]"):
    return "function f(%s) -> (Y) {\n%s\n}\n" % (inputs, body)


# name: text, arguments. All compile.
COMPILED = {
    "tanh_to_order_7": (one("Y = tanh(A) * A;"), ["--emit=gradient"] + ["--grad"] * 7),
    "nested_tanh_to_order_2": (one("Y = %s;" % nested(100, "tanh(", ")")), ["--emit=gradient", "--grad", "--grad"]),
    "product_of_offsets": (one("Y[i: N] = =(%s);" % listed(400, "A[i + {k}]", "*")), GRADIENT),
    "product_of_tensors": (one("Y[i: N] = =(%s);" % listed(200, "A{k}[i]", "*"), listed(200, "A{k}[N]")), GRADIENT),
    "contraction_of_tensors": (
        one("Y[i: N] = +(%s);" % listed(200, "A{k}[i, j]", "*"), listed(200, "A{k}[N, M]")),
        GRADIENT,
    ),
    "sum_of_offsets": (one("Y[i: N] = =(%s);" % listed(200, "A[i + {k}]", "+")), GRADIENT),
    "chain_of_products": (one(chain(10_000, "T{k} = {before} * B;"), "A[N], B[N]"), GRADIENT),
    "chain_of_powers": (one(chain(5_000, "T{k} = {before} * A;")), GRADIENT),
    "chain_of_contractions": (
        one(chain(3_000, "T{k}[i, k: N, N] = +({before}[i, j] * B[j, k]);"), "A[N, N], B[N, N]"),
        GRADIENT,
    ),
    "chain_that_branches": (
        one(
            "T0 = A * B;\nT1 = A + B;\n%s\nY = T4999;"
            % "\n".join("T%d = T%d * T%d;" % (k, k - 1, k - 2) for k in range(2, 5_000)),
            "A[N], B[N]",
        ),
        GRADIENT,
    ),
    "doubling_calls": (functions(25, "Y = {g}(X) + {g}(X);"), ["--function=f24", "--emit=gradient"]),
    "chain_of_functions": (functions(500, "Y = {g}(X) + 1.0;"), ["--function=f499", "--emit=gradient"]),
    "a_thousand_functions": (functions(1_000, "Y = X * 3.0;"), ["--function=f999", "--emit=gradient"]),
    "ten_thousand_statements": (one(chain(10_000, "T{k} = {before} + 1.0;")), GRADIENT),
    "ten_thousand_calls": (
        "function g<K>(X[N]) -> (Y) { Y = X * K; }\n" + one(chain(10_000, "T{k} = g<{k}>({before});")),
        ["--function=f", "--emit=contraction"],
    ),
    "ten_thousand_inputs": (one("Y = A9999;", listed(10_000, "A{k}[N]")), GRADIENT),
    "ten_thousand_outputs": (
        "function f(A[N]) -> (%s) { %s }" % (listed(10_000, "Y{k}"), lines(10_000, "Y{k} = A * {k}.0;")),
        GRADIENT,
    ),
    "derivatives_by_a_thousand_inputs": (
        one(
            "T0 = A0;\n%s\nY = T999;" % "\n".join("T%d = T%d * tanh(A%d);" % (k, k - 1, k) for k in range(1, 1_000)),
            listed(1_000, "A{k}[N]"),
        ),
        GRADIENT,
    ),
    "slices_that_are_read_apart": (
        one(
            "S0[i: N] = =(A[0, i]);\n%s\nY = S1999;"
            % "\n".join("S%d[i: N] = =(A[%d, i] * S%d[i]);" % (k, k, k - 1) for k in range(1, 2_000)),
            "A[T, N]",
        ),
        GRADIENT,
    ),
    "slices_that_meet": (
        one(
            "S0[i: N] = =(A[i]);\n%s\nY = S1999;"
            % "\n".join("S%d[i: N] = =(A[i + %d] * S%d[i]);" % (k, k, k - 1) for k in range(1, 2_000))
        ),
        GRADIENT,
    ),
    "select_chain": (one("Y = %s A%s;" % (listed(250, "A > {k}.0 ? A * {k}.0 : (", " "), ")" * 250)), GRADIENT),
    "squaring": (
        one("T0 = A * A;\n%s\nY = T99;" % "\n".join("T%d = T%d * T%d;" % (k, k - 1, k - 1) for k in range(1, 100))),
        ["--emit=gradient", "--grad", "--grad"],
    ),
    "rank_128_elementwise": (one("Y = A * 2.0 + A;", "A[%s]" % ranks(128)), GRADIENT),
    "rank_128_contraction": (one("Y[] = +(A[%s]);" % listed(128, "i{k}"), "A[%s]" % ranks(128)), GRADIENT),
    "band_of_128_indices": (band(128), ["--emit=bounded", "--size", "N=100"]),
    "a_thousand_constraints": (
        one("Y[i: N] = +(A[i + j]), %s;" % listed(1_000, "j < {k}")),
        ["--emit=bounded", "--size", "N=100"],
    ),
    "long_numbers": (
        one("Y = A + 0.%s + 1e-%s + %s.0e-100000;" % ("1" * 100_000, "9" * 5, "1" * 100_000)),
        CONTRACTION,
    ),
    "a_long_line": ("function f(A[N]) -> (Y) { Y =%sA; }" % (" " * 2_000_000), CONTRACTION),
    "a_long_comment": ("// x\n" * 200_000 + one("Y = A;"), CONTRACTION),
    "a_long_name": (one("Y = A%s;" % ("B" * 100_000), "A%s[N]" % ("B" * 100_000)), CONTRACTION),
}

# name: text, arguments. All become kernels.
LLVM, ASSEMBLY = ("--emit=llvm", "--size", "N=64"), ("--emit=asm", "--size", "N=64")
OFFSETS = "--emit=llvm", "--size", "N=1000"
KERNELS = {
    "chain_of_products": (one(chain(10_000, "T{k} = {before} * B;"), "A[N], B[N]"), (*LLVM, "--grad")),
    "chain_of_products_in_assembly": (one(chain(5_000, "T{k} = {before} * B;"), "A[N], B[N]"), (*ASSEMBLY, "--grad")),
    "chain_of_contractions": (
        one(chain(2_000, "T{k}[i, k: N, N] = +({before}[i, j] * B[j, k]);"), "A[N, N], B[N, N]"),
        (*LLVM, "--grad"),
    ),
    "chain_of_sines": (one(chain(2_000, "T{k} = sin({before} + B);"), "A[N], B[N]"), (*ASSEMBLY, "--grad")),
    "chain_of_scans": (one(chain(500, "T{k}[i: N] = +({before}[j]), j <= i;")), (*LLVM, "--grad")),
    "chain_of_sorts": (one(chain(300, "T{k} = gather({before}, argsort({before}));")), LLVM),
    "product_of_offsets": (one("Y[i: N] = =(%s);" % listed(200, "A[i + {k}]", "*")), (*OFFSETS, "--grad")),
    "four_hundred_offsets": (one("Y[i: N] = =(%s);" % listed(400, "A[i + {k}]", "*")), OFFSETS),
    "sum_of_sines": (one("Y = %s;" % listed(200, "sin(A * {k}.0)", "+")), (*ASSEMBLY, "--grad")),
    "five_hundred_sines": (one("Y = %s;" % listed(500, "sin(A * {k}.0)", "+")), ASSEMBLY),
    "five_hundred_divisions": (one("Y = %s;" % listed(500, "A / (B + {k})", "+"), "i32 A[N], i32 B[N]"), ASSEMBLY),
    "five_hundred_divisions_of_64_bits": (
        one("Y = %s;" % listed(500, "A / (B + {k})", "+"), "i64 A[N], i64 B[N]"),
        ASSEMBLY,
    ),
    "five_hundred_integer_powers": (
        one("Y = %s;" % listed(500, "pow(A, B + {k})", "+"), "i32 A[N], i32 B[N]"),
        ASSEMBLY,
    ),
    "a_thousand_powers": (
        one("Y = (%s) * (%s);" % (listed(500, "pow(A, {k}.5)", "+"), listed(500, "pow(B, {k}.5)", "+")), "A[N], B[N]"),
        ASSEMBLY,
    ),
    "sum_of_tensors": (one("Y = %s;" % listed(1_000, "A{k}", "+"), listed(1_000, "A{k}[N]")), ASSEMBLY),
    "contraction_of_tensors": (
        one("Y[i: N] = +(%s);" % listed(200, "A{k}[i, j]", "*"), listed(200, "A{k}[N, N]")),
        (*LLVM, "--grad"),
    ),
    "ten_thousand_inputs": (one("Y = A9999;", listed(10_000, "A{k}[N]")), LLVM),
    "ten_thousand_outputs": (
        "function f(A[N]) -> (%s) { %s }" % (listed(10_000, "Y{k}"), lines(10_000, "Y{k} = A * {k}.0;")),
        LLVM,
    ),
    "band_of_128_indices": (band(128), LLVM),
}

# name: text, arguments, what is said. All are refused.
REFUSED = {
    "doubling_calls_of_other_arguments": (
        functions(25, "Y = {g}(X) + {g}(X + 1.0);"),
        ["--function=f24", *CONTRACTION],
        "TILEC_LIMIT_STATEMENTS",
    ),
    "iterated_iterations": (
        functions(6, "Y = iterate<{g}, 100>(X);"),
        ["--function=f5", *CONTRACTION],
        "TILEC_LIMIT_STATEMENTS",
    ),
    "doubling_tuples": (
        one(
            "T0 = tuple(A, A);\n%s\nY = A;"
            % "\n".join("T%d = tuple(T%d, T%d);" % (k, k - 1, k - 1) for k in range(1, 25))
        ),
        CONTRACTION,
        "TILEC_LIMIT_COMPONENTS",
    ),
    "rank_500_elementwise": (one("Y = A + 1.0;", "A[%s]" % ranks(500)), CONTRACTION, "TILEC_LIMIT_INDICES"),
    "rank_500_contraction": (
        one("Y[] = +(A[%s]);" % listed(500, "i{k}"), "A[%s]" % ranks(500)),
        CONTRACTION,
        "TILEC_LIMIT_INDICES",
    ),
    "rank_500_of_an_outer_product": (
        one("Y[%s: %s] = =(A);" % (listed(500, "i{k}"), ", ".join(["2"] * 500)), "A[]"),
        CONTRACTION,
        "TILEC_LIMIT_INDICES",
    ),
    "rank_500_of_an_input_that_is_not_read": (
        one("Y = B;", "A[%s], B[N]" % ranks(500)),
        CONTRACTION,
        "TILEC_LIMIT_INDICES",
    ),
    "rank_500_of_a_reshape": (
        one("Y = reshape(A, N, %s);" % ", ".join(["1"] * 500)),
        CONTRACTION,
        "TILEC_LIMIT_INDICES",
    ),
    "rank_129": (one("Y = A;", "A[%s]" % ranks(129)), CONTRACTION, "TILEC_LIMIT_INDICES"),
    "band_of_200_indices": (band(200), CONTRACTION, "TILEC_LIMIT_INDICES"),
    "sine_to_order_20": (one("Y = sin(A);"), ["--emit=gradient"] + ["--grad"] * 20, "E0132"),
    "product_of_a_thousand_tensors": (
        one("Y = %s;" % listed(1_000, "A{k}", "*"), listed(1_000, "A{k}[N]")),
        GRADIENT,
        "TILEC_LIMIT_OPERATIONS",
    ),
    "chain_of_600_functions": (
        functions(601, "Y = {g}(X) + 1.0;"),
        ["--function=f600", *CONTRACTION],
        "TILEC_LIMIT_NESTING",
    ),
    "sizes_multiplied_out": (
        one("Y[i: %s] = =(A[i]);" % listed(24, "(N + M{k})", "*"), "A[N], " + listed(24, "B{k}[M{k}]")),
        CONTRACTION,
        "TILEC_LIMIT_TERMS",
    ),
    "gradient_of_a_product_of_offsets": (
        one("Y[i: N] = =(%s);" % listed(400, "A[i + {k}]", "*")),
        [*OFFSETS, "--grad"],
        "TILEC_LIMIT_COMPILED",
    ),
    "fifty_thousand_kernels": (
        one(chain(50_000, "T{k}[i, k: N, N] = +({before}[i, j] * B[j, k]);"), "A[N, N], B[N, N]"),
        LLVM,
        "TILEC_LIMIT_COMPILED",
    ),
    "nested_parentheses": (one("Y = %s;" % nested(100_000, "(", ")")), CONTRACTION, "E0107"),
    "nested_negation": (one("Y = %sA;" % ("- " * 100_000)), CONTRACTION, "E0107"),
    "nested_calls": (one("Y = %s;" % nested(100_000, "exp(", ")")), CONTRACTION, "E0107"),
    "nested_selects": (one("Y = %s;" % nested(100_000, "A > 0.0 ? ", " : 1.0")), CONTRACTION, "E0107"),
    "selects_in_a_row": (one("Y = %s A;" % listed(100_000, "A > {k}.0 ? {k}.0 :", " ")), CONTRACTION, "E0107"),
    "terms_in_a_row": (one("Y = %s;" % " + ".join(["A"] * 100_000)), CONTRACTION, "E0107"),
    "index_of_many_terms": (one("Y[i: N] = =(A[%s]);" % " + ".join(["i"] * 100_000)), CONTRACTION, "E0107"),
    "brackets_without_end": ("(" * 1_000_000, CONTRACTION, "E0101"),
    "a_number_beyond_f64": (one("Y = A + 1e%s;" % ("9" * 100_000)), CONTRACTION, "E0215"),
    "a_long_number_beyond_f64": (one("Y = A + %s.0;" % ("1" * 100_000)), CONTRACTION, "E0215"),
    "a_number_beyond_64_bits": (one("Y[i: %s] = =(A[i]);" % ("9" * 100_000)), CONTRACTION, "E0106"),
    "a_long_name_mistyped": (one("Y = A%s;" % ("B" * 100_000), "A%s[N]" % ("B" * 100_001)), CONTRACTION, "E0221"),
    "five_thousand_unknown_names": (one(lines(4_500, "T{k} = B{k};") + "\nY = A;"), CONTRACTION, "E0221"),
    "fifty_thousand_unknown_names": (one(lines(50_000, "T{k} = B{k};") + "\nY = A;"), CONTRACTION, "E0221"),
    "ten_thousand_unknown_names": (one(lines(10_000, "T{k} = B{k};") + "\nY = A;"), CONTRACTION, "E0221"),
    "ten_thousand_unknown_functions": (one(lines(10_000, "T{k} = g{k}(A);") + "\nY = A;"), CONTRACTION, "E0116"),
    "unreadable_text": ("@#$%" * 250_000, CONTRACTION, "E0109"),
}


def compiled(tmp_path, text, arguments, **environment):
    def bounded():
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    (tmp_path / "f.tile").write_text(text)
    return subprocess.run(
        [TILEC, "f.tile", *arguments],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        preexec_fn=bounded,
        timeout=300,
    )


@pytest.mark.parametrize("name", COMPILED)
def test_is_compiled(name, tmp_path):
    done = compiled(tmp_path, *COMPILED[name])
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.startswith(b"function")


@pytest.mark.parametrize("name", KERNELS)
def test_becomes_kernels(name, tmp_path):
    done = compiled(tmp_path, *KERNELS[name])
    assert done.returncode == 0 and done.stdout, done.stderr[-500:]


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name, tmp_path):
    text, arguments, said = REFUSED[name]
    done = compiled(tmp_path, text, arguments)
    assert done.returncode == 1 and said.encode() in done.stderr, done.stderr[:500]


def test_a_limit_is_raised_by_what_its_hint_names(tmp_path):
    for name, variable, value in (
        ("rank_129", "TILEC_LIMIT_INDICES", "129"),
        ("chain_of_600_functions", "TILEC_LIMIT_NESTING", "700"),
    ):
        text, arguments, said = REFUSED[name]
        assert said == variable
        done = compiled(tmp_path, text, arguments, **{variable: value})
        assert done.returncode == 0, done.stderr[:300]


def test_imports_that_meet_again(tmp_path):
    """Forty levels, each of which imports the one before by two ways."""
    (tmp_path / "l0.tile").write_text("function f0(X[N]) -> (Y) { Y = X * 2.0; }\n")
    for k in range(1, 41):
        for side in "ab":
            (tmp_path / ("%s%d.tile" % (side, k))).write_text(
                'import "l%d.tile";\nfunction %s%d(X[N]) -> (Y) { Y = f%d(X); }\n' % (k - 1, side, k, k - 1)
            )
        (tmp_path / ("l%d.tile" % k)).write_text(
            'import "a%d.tile";\nimport "b%d.tile";\nfunction f%d(X[N]) -> (Y) { Y = a%d(X) + b%d(X); }\n'
            % (k, k, k, k, k)
        )
    done = compiled(tmp_path, 'import "l40.tile";\nfunction f(X[N]) -> (Y) { Y = f40(X); }\n', CONTRACTION)
    assert done.returncode in (0, 1) and (done.returncode == 0 or b"TILEC_LIMIT" in done.stderr), done.stderr[:300]


def test_a_chain_of_imports(tmp_path):
    for count in (200, 3_000):
        (tmp_path / "l0.tile").write_text("function f0(X[N]) -> (Y) { Y = X * 2.0; }\n")
        for k in range(1, count):
            (tmp_path / ("l%d.tile" % k)).write_text(
                'import "l%d.tile";\nfunction f%d(X[N]) -> (Y) { Y = X + %d.0; }\n' % (k - 1, k, k)
            )
        done = compiled(
            tmp_path,
            'import "l%d.tile";\nfunction f(X[N]) -> (Y) { Y = f%d(X); }\n' % (count - 1, count - 1),
            CONTRACTION,
        )
        assert done.returncode == 0 or b"E0132" in done.stderr, done.stderr[:300]


def test_second_derivatives_of_a_nested_value_grow_with_its_length(tmp_path):
    def length(depth):
        return compiled(
            tmp_path, one("Y = %s;" % nested(depth, "sin(", ")")), ["--emit=loops", "--size=N=10", "--grad", "--grad"]
        ).stdout.count(b"\n")
    assert 0 < length(120) < 2.2 * length(60)
