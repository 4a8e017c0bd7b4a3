"""Random functions that are applied again and again: each step reads and writes rows of its own.

    python3 tests/python/random_iterated.py TARGET FIRST LAST      checks those of these numbers on a target

What a step does is the same in all of them but for where its rows lie and for the numbers that it compares with, so
that steps share kernels; what they compute is held against the interpreter.
"""

import pathlib
import random
import sys
import tempfile

import numpy as np

import tilec

ROWS = ["X[S, n]", "X[STEPS - 1 - S, n]", "X[S + 1, n]", "X[S, N - 1 - n]", "X[0, n]", "Z[n, S]", "Z[n, 2*S + 1]"]
CONDITIONS = ["S < L[n]", "L[n] <= S", "S == L[n]", "2*S + 1 < L[n]", "STEPS - S > L[n]"]


class Iterated:
    """A text, arguments for it, and what it must give."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.steps = rng.choice([3, 4, 5, 7])
        self.n = rng.choice([1, 3, 8, 17, 33, 64])
        rows = rng.sample(ROWS, rng.randint(1, 3))
        lines, terms = [], ["0.5*H[n]"]
        for row in rows:
            term = rng.choice(["%s", "sin(%s)", "H[n]*%s", "W[n]*%s"])
            terms.append(term % row.replace("STEPS", str(self.steps)))
        if rng.random() < 0.5:
            lines.append("P[n: N] = +(V[n, k] * H[k]);")
            terms.append("P[n]")
        condition = rng.choice(CONDITIONS).replace("STEPS", str(self.steps))
        value = " + ".join(terms)
        if rng.random() < 0.6:
            value = "(%s) ? %s : %s" % (condition, value, rng.choice(["H[n]", "W[n]", "0.0"]))
        lines.append("H1[n: N] = =(%s);" % value)
        place = rng.choice(["S", "%d - S" % (self.steps - 1)])
        lines.append("Y1[%s, n: T, N] = =(%s) default Y;" % (place, rng.choice(["H1[n]", "H1[n] * W[n]"])))
        lines.append("C1[n: N] = =((%s) ? S : C[n]);" % condition)
        self.text = """function step(H[N], Y[T, N], i64 C[N], S, X[R, N], Z[N, Q], W[N], V[N, N], i64 L[N]) -> (H1, Y1, C1, NEXT) {
  %s
  NEXT = S + 1;
}
function f(H[N], Y[T, N], i64 C[N], X[R, N], Z[N, Q], W[N], V[N, N], i64 L[N]) -> (HN, YN, CN) {
  (HN, YN, CN, E) = iterate<step, %d>(H, Y, C, 0, X, Z, W, V, L);
}
""" % ("\n  ".join(lines), self.steps)
        draw = np.random.default_rng(seed)
        n, t = self.n, self.steps
        self.arguments = [
            draw.standard_normal(n),
            draw.standard_normal((t, n)),
            draw.integers(-3, 3, n),
            draw.standard_normal((t + 1, n)),
            draw.standard_normal((n, 2 * t + 1)),
            draw.standard_normal(n),
            draw.standard_normal((n, n)) / n,
            draw.integers(0, t + 1, n),
        ]
        if rng.random() < 0.3:                                 # rows that lie in another order than they are read in
            self.arguments[3] = np.ascontiguousarray(self.arguments[3][::-1])[::-1]
        self.cotangents = [draw.standard_normal(n), draw.standard_normal((t, n))]

    def programs(self, target):
        f = tilec.compile(self.text, target=target).f
        gradient = f.grad(of=["HN", "YN"], wrt=["H", "Y", "X", "Z", "W", "V"])
        return [(f, self.arguments), (gradient, self.arguments + self.cotangents)]


def near(got, wanted, what):
    got, wanted = (x if isinstance(x, tuple) else (x,) for x in (got, wanted))
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=what)


def check(target, seed):
    made = Iterated(seed)
    for (f, arguments), (reference, _) in zip(made.programs(target), made.programs("reference"), strict=True):
        what = "seed %d on %s\n%s" % (seed, target, made.text)
        wanted = reference(*arguments)
        for _ in range(3):                                     # launches are one graph from the second call on
            near(f(*[np.copy(a) for a in arguments]), wanted, what)
            near(f(*arguments), wanted, what)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "f.tilec"
            f.save(path, *arguments)
            near(tilec.load(path)(*arguments), wanted, "saved, " + what)


if __name__ == "__main__":
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        check(sys.argv[1], number)
