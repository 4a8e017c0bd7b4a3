"""Random programs of calls: several functions with few names among them, so that those of callers, callees and temporaries meet.

    python3 tests/python/random_calls.py SEED      prints one

Every extent is 4 at run time, whatever it is called, so that most of the programs are right; what is wrong with the rest must be said.
"""

import dataclasses
import random
import sys

NAMES = ["X", "Y", "Z", "T", "X_1", "Y_1", "Y_2", "A", "dX", "dY", "I", "N", "Others", "S", "W", "Zero", "Y'"]
SIZES = ["N", "M", "I", "X_2", "K", "Y_3"]
TYPES = ["f32"] * 5 + ["f64", "f64", "f16", "i32", "i64"]
EXTENT = 4


@dataclasses.dataclass
class Value:
    name: str
    rank: int
    dtype: str | None = None


@dataclasses.dataclass
class Function:
    name: str
    inputs: list
    results: list
    text: str
    takes_function: bool = False
    sizes: frozenset = frozenset()


class Generator:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.functions = []
        for k in range(self.rng.randint(2, 6)):
            self.functions.append(self.function("f%d" % k))
        self.last = self.functions[-1]

    def chance(self, p):
        return self.rng.random() < p

    def typed(self, name, p):
        return "%s %s" % (self.rng.choice(TYPES), name) if self.chance(p) else name

    # ---- one function ----

    def function(self, name):
        rng = self.rng
        self.free = rng.sample(NAMES, len(NAMES))
        self.sizes = [s for s in rng.sample(SIZES, len(SIZES)) if s not in self.free[:10]]
        self.free = [n for n in self.free if n not in self.sizes][:10]
        self.parameter = "F" if self.chance(0.15) and self.elementwise_functions() else None
        self.known, inputs = [], []
        for _ in range(rng.randint(1, 3)):
            value = Value(self.free.pop(), rng.choice([1, 1, 2, 2, 3, 0]))
            self.known.append(value)
            inputs.append(value)
        head, sizes = [], set()
        for value in inputs:
            shape = [rng.choice(self.sizes[:3]) for _ in range(value.rank)]
            sizes.update(shape)
            brackets = "[%s]" % ", ".join(shape)
            text = self.typed(value.name, 0.2)
            value.dtype = text.split()[0] if " " in text else None
            head.append(text + brackets)
        statements = [self.statement() for _ in range(rng.randint(1, 4))]
        made = [v for v in self.known[len(inputs):] if v.rank >= 0]
        results = rng.sample(made, min(len(made), rng.choice([1, 1, 1, 2, 3]))) if made else [self.known[0]]
        if self.chance(0.05):
            results[0] = rng.choice(inputs)
        rule = self.rule(name, inputs, results) if self.chance(0.15) else ""
        text = "function %s%s(%s) -> (%s) {\n  %s\n}\n%s" % (
            name,
            "<%s>" % self.parameter if self.parameter else "",
            ", ".join(head),
            ", ".join(self.typed(r.name, 0.15) for r in results),
            "\n  ".join(statements),
            rule,
        )
        return Function(name, inputs, results, text, self.parameter is not None, frozenset(sizes))

    def rule(self, name, inputs, results):
        """`gradient f(inputs, results, cotangents) -> (one for each input)`: any text will do, for it is never compared
        with a truth."""
        given = ["P%d" % k for k in range(len(inputs))]
        of = ["R%d" % k for k in range(len(results))]
        change = ["C%d" % k for k in range(len(results))]
        out = ["Y%s" % ("_%d" % k if k else "") for k in range(len(inputs))]
        body = " ".join("%s = %s * %s;" % (o, g, self.rng.choice(["2.0", "0.5", g])) for o, g in zip(out, given))
        return "gradient %s(%s) -> (%s) { %s }\n" % (name, ", ".join(given + of + change), ", ".join(out), body)

    def elementwise_functions(self):
        return [
            f
            for f in getattr(self, "functions", [])
            if len(f.inputs) == 1 and len(f.results) == 1 and not f.takes_function
        ]

    def statement(self):
        rng = self.rng
        name = self.free.pop()
        several = [f for f in self.functions if len(f.results) > 1]
        if several and self.chance(0.15) and len(self.free) > 4:
            callee = rng.choice(several)
            targets = [
                Value(n, r.rank) for n, r in zip([name] + [self.free.pop() for _ in callee.results[1:]], callee.results)
            ]
            text = "(%s) = %s;" % (", ".join(self.typed(t.name, 0.1) for t in targets), self.call(callee, 2))
            self.known += targets
            return text
        if self.chance(0.25):
            text, rank = self.contraction(name)
        elif self.chance(0.1):
            values = [rng.choice(self.known) for _ in range(2)]
            inner = rng.choice(["%s" % values[0].name, self.value(values[0].rank, 1)])
            text, rank = (
                "%s = element(tuple(%s, %s), 0);" % (self.typed(name, 0.1), inner, values[1].name),
                values[0].rank,
            )
        else:
            rank = rng.choice([0, 1, 1, 2, 2, 3])
            text = "%s = %s;" % (self.typed(name, 0.2), self.value(rank, 2))
        self.known.append(Value(name, rank))
        return text

    def contraction(self, name):
        rng = self.rng
        value = rng.choice(self.known)
        letters = ["i", "j", "k"][: value.rank]
        kept = [i for i in letters if self.chance(0.6)]
        rng.shuffle(kept)
        body = "%s[%s]" % (value.name, ", ".join(letters))
        if self.chance(0.4):
            body = rng.choice(["%s * 2", "exp(%s)", "%s * %s" % (body, "%s"), "tanh(%s)"]) % body
        sizes = ": " + ", ".join([str(EXTENT)] * len(kept)) if kept else ""
        aggregation = rng.choice("+++*><") if len(kept) < len(letters) else rng.choice("=+")
        return "%s[%s%s] = %s(%s);" % (self.typed(name, 0.2), ", ".join(kept), sizes, aggregation, body), len(kept)

    # ---- values of a rank ----

    def value(self, rank, depth):
        rng = self.rng
        fitting = [v for v in self.known if v.rank == rank]
        forms = (
            ["call", "call", "call", "builtin", "builtin", "binary", "unary", "reshape", "iterate", "select"]
            if depth > 0
            else []
        )
        form = rng.choice(forms + ["name"] * 2)
        if form == "call":
            callees = [f for f in self.functions if len(f.results) == 1 and f.results[0].rank == rank]
            if callees:
                return self.call(rng.choice(callees), depth)
        if form == "iterate" and (
            callees := [f for f in self.elementwise_functions() if f.inputs[0].rank == f.results[0].rank == rank]
        ):
            return "iterate<%s, %d>(%s)" % (rng.choice(callees).name, rng.randint(0, 3), self.value(rank, depth - 1))
        if form == "builtin" and rank > 0:
            return self.builtin(rank, depth)
        if form == "binary":
            return "%s %s %s" % (
                self.operand(rank, depth),
                rng.choice("+-*"),
                self.operand(rng.choice([rank, rank, 0]), depth),
            )
        if form == "unary":
            return "%s(%s)" % (
                rng.choice(["exp", "relu", "tanh", "abs", "ident", "f32", "sqrt", self.parameter or "relu"]),
                self.value(rank, depth - 1),
            )
        if form == "select":
            return "%s > 1 ? %s : %s" % (
                self.operand(rank, depth),
                self.operand(rank, depth),
                self.operand(rank, depth),
            )
        if form == "reshape" or not fitting:
            source = rng.choice(self.known)
            if source.rank == rank:
                return "reshape(%s%s)" % (self.value(rank, depth - 1), "".join(", %d" % EXTENT for _ in range(rank)))
            if source.rank > rank:
                return self.narrowed(source, rank)
            return "%s + %s" % (source.name, self.ones(rank))
        return rng.choice(fitting).name

    def ones(self, rank):
        return (
            "reshape(index(%s, 0), %s)" % (self.known[0].name, "1")
            if rank < 1
            else "reshape(0 * 1.0, %s)" % ", ".join(["1"] * rank)
        )

    def narrowed(self, source, rank):
        return "simple_reduce(%s%s)" % (source.name, "".join(", %d" % EXTENT for _ in range(rank)))

    def operand(self, rank, depth):
        return "(%s)" % self.value(rank, depth - 1) if self.chance(0.85) else self.rng.choice(["2", "0.5", "3"])

    def builtin(self, rank, depth):
        name = self.rng.choice(
            ["argsort", "sort", "cumsum", "cumsum", "cumprod", "argsort_descending", "reverse_grad", "softmax"]
        )
        inner = self.value(rank, depth - 1)
        if name == "reverse_grad":
            return "reverse_grad(%s, 0.5)" % inner
        if name == "softmax":
            return "builtin_softmax(%s, %d, %d)" % (inner, EXTENT, EXTENT) if rank == 2 else "cumsum(%s, 0)" % inner
        return "%s(%s, %d)" % (name, inner, self.rng.randrange(rank))

    def call(self, callee, depth):
        parameters = (
            "<%s>" % self.rng.choice([f.name for f in self.elementwise_functions()]) if callee.takes_function else ""
        )
        return "%s%s(%s)" % (callee.name, parameters, ", ".join(self.value(i.rank, depth - 1) for i in callee.inputs))


@dataclasses.dataclass
class Program:
    text: str
    function: str
    inputs: list                                      # Value: the shape is EXTENT in each dimension; no dtype: f32
    define: dict
    sizes: list


def program(seed) -> Program:
    made = Generator(seed)
    define = {"F": made.elementwise_functions()[0].name} if made.last.takes_function else {}
    return Program(
        "".join(f.text for f in made.functions), made.last.name, made.last.inputs, define, sorted(made.last.sizes)
    )


if __name__ == "__main__":
    print(program(int(sys.argv[1])).text)
