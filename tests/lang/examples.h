// Examples of all that the grammar takes and refuses: statements of a body, or whole files where they begin with an
// item's word.
#pragma once

#include <string>
#include <string_view>

namespace examples {

inline constexpr std::string_view good[] = {
    R"~(O[i, j: M, N] = +(A[i, k] * B[k, j]);)~",
    R"~(O[] = +(A[i]); O[:] = *(A[i]); O[i:N]=>(A[i]); O[i:N]=<(A[i]); O[i:N] = =(A[i]); O[i: N] ==(A[i]);)~",
    R"~(O[i: N] = +(A[2*i] + B[i - j]), j < 4; O[u, v: P, Q] = =(F[u] == G[v]); P[s: S] = <(U[s, t] == V[t] ? W[s]); O[i: N] = +(A[i] * B[j] ? C[k]);)~",
    R"~(F[z: Z] = =(Unit[]); O[4*p + q: 4 * P] = =(G[p]), q < 4 no_defract; T[2*i + 5: L] = =(H[i]) no_reduce default Z; O[i: N] = =(A[i]) default 1.0;)~",
    R"~(Mx[i: N] = >(A[i]) default -inf; Mn[i: N] = <(A[i]) default inf no_reduce; O[i: N] = =(A[i]) default nan;)~",
    R"~(O[i: N] = +(A[j]), 0 <= i - j < 3, 0 <= j <= i; O[i: N] = +(A[j]), j >= 1, i == 2*j, b <= c - 1; O[i: N] = +(A[i]), i < N ? 3 : 4; O[i: N] = +(A[i]), 2i - 1 < N, j < N == 3;)~",
    R"~(O[i: N] = +(A[i]), j < M > (2); O[i: N] = +(A[i]), i - j < M > (2), 2i < N, k < M >= (3), (j) < M > (2), -j < 3 > (N), $N < 3 > (M + 1), i < N, dim < M > (K) no_defract; O[i: N] = +(A[i]), i < 3 no_reduce; O[i: N] = +(A[2i + 3*j - N + 1, (i - j)/2, -i, 0, div(K, 2), i - div(max(0, K - 1), 2)]);)~",
    R"~(O[i: N] = =(i); S[i: M] = +(exp(A[i, k] - Mx[i]) * W[k]); O[i: N] = =(A[i] < 0 ? (B[i] > 1 ? 1 : 2) : -0.5 * A[i]); Cnt[i: M] = +(X[i, j] == Mx[i] ? 1 : 0);)~",
    R"~(O[i, j: max(N, 3), N > 3 ? 2 : 1] = =(A[i]); O[i] = =(A[i]);)~",
    R"~(Y = relu<2>(X); Y = iterate<f, 20>(X) + map<relu>(X) * conv2d<-1, 0.5, K>(X, F); R[] = AGG(X[i]); Y = fold<max>(X); Y = f < /* s */ 2 > (X); Y = ones<3>();)~",
    R"~(Y = max(A < B, C > (D)); Y = max(A < B, C, D > (E)); Y = f(A < 2, 3 > (D)) < (E); Y = A < B ? C : D; Y = (A << 2) >> 1 < 3 == B; Y = -A * ~B - -3; Y = A ^ B | C & D; Y = A ? B ? C : D : E; Y = A ? B : C ? D : E;)~",
    R"~((Q, R) = qr(X); (f32 V, I) = sort(X, 1); f32 Y = X; f16 O[i: N] = =(A[i]); dO = X; f32 dX_1[i: N] = +(dO[i]);)~",
    R"~(Y = as_float(X, 32) + bf16(X) + inf - nan; Y = f32; inf = X; f32 f32 = X; O[f32, inf, dim: 1, 2, 3] = =(A[import, no_reduce, 2no_reduce, iterate, gradient, 2$N, #a, #default]);)~",
    R"~(;; [[hello(world)]] O = A; [[pid]] ; [[ties(first)]] [[plan(tile(i, 8), "x", -1, 0.5)]] O[i: N] = >(A[i, j]); [[recompute]] T = A; // comment ; })~",
    R"~(T = tuple(A, B); C = element(T, 0); T = assert_wide(K >= 7); A' = B'; default' = A; functions = A; O = 18446744073709551615 + 0 - 1e5 + 2.5E-3; /* ; } */)~",
    R"~(function () -> (O) { })~",
    R"~(function (A, B[], C[N, M], D[N, N]) -> (O, P) { O = A; P = B; })~",
    R"~(function f(f16 A[M, K], i8 B[K, N], C, dO[N, (X + 1)/2], D[8, 224]) -> (f32 O, P) { })~",
    R"~(function conv2d<S=1, D=-1, F=relu>(I[N]) -> (O) { O[i: S*N] = =(I[S*i]); } function map<F>(X) -> (Y) { Y = F(X); })~",
    R"~(import "std/nn.tile"; dim Batch, Channel; [[name(k)]] function f(X) -> (Y) { Y = X; } gradient f(X, Y, DY) -> (DX) { DX = DY; } tangent f<S>(X, DX, Y) -> (DY) { DY = DX; })~",
    R"~(import "a"; import "b";)~",
    R"~(function dim(import) -> (gradient) { gradient = import; tangent[dim: N] = =(import[dim]); })~",
};

inline constexpr std::string_view bad[] = {
    R"~(O = A)~",
    R"~(O = A +; )~",
    R"~(O == A;)~",
    R"~(O += A;)~",
    R"~(O[i: N] += A[i];)~",
    R"~(O[i: N] = A[i];)~",
    R"~(O[i: N] = (A[i]);)~",
    R"~(O[i: N] = +(A[i], B[i]);)~",
    R"~(O[i: N] = +();)~",
    R"~(O[i: N] = +(A[i] * B[j] ? C[k] * 2);)~",
    R"~(O[i: N] = +(A[i] ? B[i] : C[i] ? D[i] + 1);)~",
    R"~(O[i: N] = +(A[i]) no_defract, i < 3;)~",
    R"~(O[i: N] = +(A[i]), i;)~",
    R"~(O[i: N] = +(A[i]), i > 3;)~",
    R"~(O[i: N] = +(A[i]), i != 3;)~",
    R"~(O[i: N] = +(A[i]), i <= 2j;)~",
    R"~(O[i: N] = +(A[i]), i < 2j;)~",
    R"~(O[i: N] = +(A[i]), 0 <= i <= j <= 3;)~",
    R"~(O[i: N] = +(A[B[i]]);)~",
    R"~(O[i: N] = +(A[2e1]);)~",
    R"~(O[i: N] = +(A[1.5*i]);)~",
    R"~(O[i: N] = +(A[i % 2]);)~",
    R"~(O[i: N] = +(A[i < 2]);)~",
    R"~(O[2N: 3] = +(A[i]);)~",
    R"~(O[: N] = +(A[i]);)~",
    R"~(O[i: ] = +(A[i]);)~",
    R"~(Y = A == B == C;)~",
    R"~(Y = A < B < C;)~",
    R"~(Y = A ? B;)~",
    R"~(Y = (A ? B);)~",
    R"~(Y = +A;)~",
    R"~(Y = !A;)~",
    R"~(Y = A && B;)~",
    R"~(Y = 2 X;)~",
    R"~(Y = 2i;)~",
    R"~(Y = 1.;)~",
    R"~(Y = .5;)~",
    R"~(Y = 1.2.3e4;)~",
    R"~(Y = X[i: N];)~",
    R"~(Y = fold<>>(X);)~",
    R"~(Y = fold<+>(X);)~",
    R"~(Y = f<map<relu>>(X);)~",
    R"~(Y = Fold<2>(X);)~",
    R"~(Y = f<2>;)~",
    R"~(Y = f<>(X);)~",
    R"~(Y = default;)~",
    R"~(Y = function(X);)~",
    R"~(default = A;)~",
    R"~(f32 = X Y;)~",
    R"~(f32 f16 Y = X;)~",
    R"~((A, B) += f(X);)~",
    R"~((A, B);)~",
    R"~(() = f(X);)~",
    R"~([[ties(first)] O = A;)~",
    R"~([[ties(1 + 2)]] O = A;)~",
    R"~(O = A;; })~",
    R"~(@ O = A;)~",
    R"~(O = "x";)~",
    R"~(O = A /* open ;)~",
    R"~(_O = A;)~",
    R"~(O = é;)~",
    R"~(function f(A[N) -> (O) { O = A; })~",
    R"~(function f(A) -> () { O = A; })~",
    R"~(function f(A) (O) { O = A; })~",
    R"~(function Conv<S>(A) -> (O) { O = A; })~",
    R"~(function f<>(A) -> (O) { O = A; })~",
    R"~(function f<S=K/2>(A) -> (O) { O = A; })~",
    R"~(function f(A) -> (O[N]) { O = A; })~",
    R"~(function f(A) -> (O) { O = A })~",
    R"~(function f(A) -> (O) { function g(A) -> (O) { } })~",
    R"~(function f(A) -> (O) { import "x"; })~",
    R"~(gradient (X, Y, DY) -> (DX) { DX = DY; })~",
    R"~(import std;)~",
    R"~(import "a" "b";)~",
    R"~(dim ;)~",
    R"~(polynomial i + 1;)~",
    R"~(A[N])~",
};

// An expression, and the same with every operator in parentheses.
struct Grouping { std::string_view text, grouped; };
inline constexpr Grouping groups[] = {
    {R"~(A ? B : C ? D : E)~", R"~(((A ? B : C) ? D : E))~"},
    {R"~(A ? B ? C : D : E)~", R"~((A ? (B ? C : D) : E))~"},
    {R"~(A ^ B | C & D)~", R"~((A ^ (B | (C & D))))~"},
    {R"~(A & B == C)~", R"~((A & (B == C)))~"},
    {R"~(A == B < C)~", R"~((A == (B < C)))~"},
    {R"~(A < B << C + D)~", R"~((A < (B << (C + D))))~"},
    {R"~(A - B - C)~", R"~(((A - B) - C))~"},
    {R"~(A / B * C)~", R"~(((A / B) * C))~"},
    {R"~(-A * B)~", R"~(((-A) * B))~"},
    {R"~(~A << -B)~", R"~(((~A) << (-B)))~"},
    {R"~(A << B >> C)~", R"~(((A << B) >> C))~"},
    {R"~(max(A < B, C > (D)))~", R"~(max((A < B), (C > D)))~"},
    {R"~(f<B, C>(D))~", R"~(f<B, C>(D))~"},
    {R"~(f<2>(D) < 3)~", R"~((f<2>(D) < 3))~"},
};

inline std::string program(std::string_view line) {
  for (const std::string_view word : {"function", "gradient", "import", "dim", "polynomial", "[[name"})
    if (line.starts_with(word)) return std::string(line);
  if (line == "A[N]") return std::string(line);
  return "function f(A[N], B[M]) -> (O) {\n" + std::string(line) + "\n}";
}

}  // namespace examples
