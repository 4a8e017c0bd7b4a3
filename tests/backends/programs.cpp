#include "programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace backends {

namespace {

struct Known { std::string name; Shape shape; bool real; bool integer; };

class Builder {
 public:
  Builder(Random& random, bool smooth, bool narrow) : r_(random), smooth_(smooth), narrow_(narrow) {
    type_ = narrow ? narrow_type() : smooth ? float_type() : any_type();
  }

  Program build() {
    const int kind = narrow_ ? 5 : r_.below(29);
    if (kind < 5) affine();
    else if (kind < 7) narrow_ && real() && r_.chance(3) ? attention() : matmul();
    else if (kind < 10) window();
    else if (kind < 11) fraction();
    else if (kind < 12) lattice();
    else if (kind < 14) triangle();
    else if (kind < 16) rows();
    else if (kind < 18) chain();
    else if (kind < 19) total();
    else if (kind < 20) unique();
    else if (kind < 21) overlays();
    else if (kind < 23) factored();
    else if (kind < 25) asked();
    else if (kind < 26) gated();
    else scan();
    if (r_.chance(3)) epilogue(r_.between(1, 4));
    if (r_.chance(8)) affine();
    return finish();
  }

 private:
  // ---- types, sizes, names

  DType float_type() {
    return r_.pick({DType::F32, DType::F32, DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16});
  }
  DType any_type() {
    return r_.chance(2) ? float_type()
                        : r_.pick({DType::Bool, DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16,
                              DType::I32, DType::I64});
  }
  DType narrow_type() {
    return smooth_ || r_.chance(2) ? r_.pick({DType::F16, DType::BF16}) : r_.pick({DType::I8, DType::U8});
  }
  bool real() const { return tilec::lang::is_float(type_); }

  std::int64_t size() {
    if (r_.chance(30)) return 0;
    if (r_.chance(10)) return 1;
    if (r_.chance(4)) return r_.pick({7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65});
    return r_.between(2, 6);
  }
  std::string fresh() { return fmt::format("T{}", count_++); }

  std::string input(const Shape& shape, DType type) {
    if (r_.chance(4))
      for (const Input& known : inputs_) if (known.dtype == type && known.shape == shape) return known.name;
    const std::string name = fmt::format("A{}", inputs_.size());
    inputs_.push_back({name, type, shape});
    known_.push_back({name, shape, tilec::lang::is_float(type), !tilec::lang::is_float(type) && type != DType::Bool});
    return name;
  }
  std::string input(const Shape& shape) {
    return input(shape, r_.chance(12) ? (smooth_ ? float_type() : any_type()) : type_);
  }

  void statement(const std::string& name, const Shape& shape, const std::string& line, bool is_real, bool integer) {
    body_ += "  " + line + "\n";
    known_.push_back({name, shape, is_real, integer});
    last_ = name;
  }
  void statement(const std::string& name, const Shape& shape, const std::string& line) {
    statement(name, shape, line, real(), !real());
  }

  Program finish() {
    std::vector<std::string> parameters, results{last_};
    for (const Input& i : inputs_) {
      std::vector<std::string> sizes;
      for (std::size_t d = 0; d < i.shape.size(); ++d) sizes.push_back(fmt::format("{}_{}", i.name, d));
      parameters.push_back(sizes.empty() ? i.name : fmt::format("{}[{}]", i.name, fmt::join(sizes, ", ")));
    }
    for (const Known& k : known_)
      if (k.name[0] == 'T' && k.name != last_ && r_.chance(5)) results.push_back(k.name);
    const bool all_real =
        std::all_of(inputs_.begin(), inputs_.end(), [](const Input& i) { return tilec::lang::is_float(i.dtype); });
    return {kind_,
        fmt::format("function f({}) -> ({}) {{\n{}}}\n", fmt::join(parameters, ", "), fmt::join(results, ", "), body_),
        inputs_, all_real && !inputs_.empty(), kind_.find("factored") != std::string::npos};
  }

  std::string fold() {
    return smooth_ ? r_.pick({"+", "+", "+", "+", ">", "<"}) : r_.pick({"+", "+", "+", "+", ">", "<", "*"});
  }

  std::string bracket(const std::string& name, const std::vector<std::string>& elements) {
    return fmt::format("{}[{}]", name, fmt::join(elements, ", "));
  }
  std::string target(const std::string& name, const std::vector<std::string>& elements, const Shape& shape) {
    return shape.empty() ? name + "[]"
                         : fmt::format("{}[{}: {}]", name, fmt::join(elements, ", "), fmt::join(shape, ", "));
  }
  // ` default …`: a number, or a tensor of the same shape.
  std::string clause(const Shape& shape) {
    if (!r_.chance(4)) return "";
    if (r_.chance(2))
      return fmt::format(" default {}", r_.pick({"1", "3", real() ? "-inf" : "2", real() ? "0.5" : "0"}));
    return " default " + input(shape, type_);
  }

  // ---- bodies

  std::string value(const std::vector<std::string>& reads, const std::vector<std::string>& indices) {
    std::string all = reads[0];
    for (std::size_t k = 1; k < reads.size(); ++k) all += r_.pick({" * ", " * ", " * ", " + ", " - "}) + reads[k];
    const std::string index = indices.empty() ? "2" : r_.pick(indices);
    const int choice = r_.below(real() ? 26 : 20);
    switch (choice) {
      case 0: return fmt::format("abs({})", all);
      case 1: return fmt::format("max({}, {})", all, reads.back());
      case 2: return fmt::format("{} < {} ? {} : {}", reads[0], reads.back(), all, reads[0]);
      case 3: return fmt::format("({}) * {}", all, index);
      case 4: return fmt::format("{} == {} ? {}", reads[0], reads.back(), reads[0]);
      case 5: return fmt::format("{} > {} ? {} : 0", index, r_.below(4), all);
      case 6: return smooth_ ? all : fmt::format("{} < {}", reads[0], reads.back());
      case 7: return smooth_ ? all : fmt::format("i32({})", all);
      case 8: return fmt::format("{} + f32({})", all, index);
      case 9: return fmt::format("min({}, {} - 1)", reads[0], all);
      case 20: return fmt::format("exp({} * 0.125)", all);
      case 21: return fmt::format("tanh({})", all);
      case 22: return fmt::format("sqrt(abs({}) + 0.5)", all);
      case 23: return fmt::format("sigmoid({} - 1)", all);
      case 24: return fmt::format("f16({}) * {}", reads[0], reads.back());
      case 25: return fmt::format("log(abs({}) + 1.5) / 3", all);
      default: return all;
    }
  }

  // ---- affine maps

  // A linear form over the indices, anywhere.
  std::string form(const std::vector<std::string>& x) {
    switch (r_.below(12)) {
      case 0: return fmt::format("{}*{} + {} - 1", r_.between(2, 3), r_.pick(x), r_.pick(x));
      case 1: return fmt::format("{} + {}", r_.pick(x), r_.below(3));
      case 2: return fmt::format("{} - {}", r_.between(2, 8), r_.pick(x));
      case 3: return fmt::format("{} - {} + {}", r_.pick(x), r_.pick(x), r_.below(4));
      case 4: return std::to_string(r_.below(3));
      case 5: return fmt::format("2*{} + 3*{} - {}", r_.pick(x), r_.pick(x), r_.below(5));
      case 6: return fmt::format("({} + {})/2", r_.pick(x), r_.below(3));
      case 7: return fmt::format("5 - 2*{}", r_.pick(x));
      default: return r_.pick(x);
    }
  }

  void affine() {
    kind_ += "affine ";
    const int rank = r_.below(5), count = std::max(1, std::min(6, rank + r_.below(4)));
    std::vector<std::string> x;
    for (int k = 0; k < count; ++k) x.push_back(std::string(1, "ijklmn"[k]));
    Shape shape;
    std::vector<std::string> elements;
    std::vector<bool> bounded(x.size(), false);
    std::int64_t outputs = 1;
    for (int d = 0; d < rank; ++d) {
      std::int64_t s = size();
      if (outputs * s > 400) s = r_.between(1, 3);
      outputs *= std::max<std::int64_t>(1, s);
      shape.push_back(s);
      const std::string& i = x[static_cast<std::size_t>(d)];
      const int how = r_.below(16);
      elements.push_back(how == 0 ? fmt::format("{}*{} + {}", r_.between(2, 3), i, r_.below(2))
              : how == 1          ? fmt::format("{} + {}", i, r_.pick(x))
              : how == 2          ? fmt::format("{} - {}", r_.between(1, 9), i)
              : how == 3          ? i + " + 1"
              : how == 4          ? fmt::format("2*{} - {}", i, r_.pick(x))
                                  : i);
      bounded[static_cast<std::size_t>(d)] = how > 4 || how == 0 || how == 2 || how == 3;
    }
    std::vector<std::string> reads;
    const int wanted = r_.between(1, 3);
    for (int n = 0; n < wanted || std::find(bounded.begin(), bounded.end(), false) != bounded.end(); ++n) {
      const Known* earlier = !known_.empty() && r_.chance(2) ? &r_.pick(known_) : nullptr;
      Shape s;
      std::vector<std::string> forms;
      const int dims = earlier ? static_cast<int>(earlier->shape.size()) : r_.below(4);
      for (int d = 0; d < dims; ++d) {
        s.push_back(size());
        const auto loose = std::find(bounded.begin(), bounded.end(), false);
        if (loose != bounded.end()) {
          const std::string& i = x[static_cast<std::size_t>(loose - bounded.begin())];
          forms.push_back(r_.chance(8) ? fmt::format("{} - {}", r_.between(2, 9), i)
                  : r_.chance(8)       ? fmt::format("{}*{}", r_.between(2, 3), i)
                                       : i);
          *loose = true;
        } else {
          forms.push_back(form(x));
        }
      }
      while (s.size() > 1 && points(s) > 4000) s[static_cast<std::size_t>(r_.below(static_cast<int>(s.size())))] = 2;
      reads.push_back(bracket(earlier ? earlier->name : input(s), forms));
      if (n > 8) break;
    }
    std::string extra;
    while (r_.chance(4)) {
      extra += r_.chance(2) ? fmt::format(", {} + {} < {}", r_.pick(x), r_.pick(x), r_.between(2, 10))
          : r_.chance(2)    ? fmt::format(", {} <= {}", r_.pick(x), r_.pick(x))
                            : fmt::format(", 0 <= {} - {} < {}", r_.pick(x), r_.pick(x), r_.between(1, 4));
    }
    const std::string name = fresh(), agg = r_.chance(8) ? "=" : fold();
    statement(name, shape,
        fmt::format("{} = {}({}){}{};", target(name, elements, shape), agg, value(reads, x), extra, clause(shape)));
  }
  static std::int64_t points(const Shape& s) {
    std::int64_t n = 1;
    for (const std::int64_t k : s) n *= k;
    return n;
  }

  // ---- products

  void matmul() {
    kind_ += "matmul ";
    const bool large = narrow_ || r_.chance(8);
    std::int64_t m = size(), n = size(), k = size();
    if (large) m = r_.pick({33, 50, 70, 96}), n = r_.pick({17, 48, 65, 130}), k = r_.pick({1, 5, 50, 64});
    const std::int64_t batch = r_.chance(4) ? r_.between(1, 3) : -1;
    const bool ta = r_.chance(3), tb = r_.chance(3), tc = r_.chance(5);
    const auto dims = [&](const char* a, const char* b, bool swap) {
      return swap ? std::vector<std::string>{b, a} : std::vector<std::string>{a, b};
    };
    const auto sizes = [&](std::int64_t a, std::int64_t b, bool swap) { return swap ? Shape{b, a} : Shape{a, b}; };
    std::vector<std::string> xa = dims("i", "k", ta), xb = dims("k", "j", tb), xo = dims("i", "j", tc);
    Shape sa = sizes(m, k, ta), sb = sizes(k, n, tb), so = sizes(m, n, tc);
    if (batch >= 0) {
      const bool last = r_.chance(4);
      const auto put = [&](std::vector<std::string>& x, Shape& s) {
        x.insert(last ? x.end() : x.begin(), "b");
        s.insert(last ? s.end() : s.begin(), batch);
      };
      put(xa, sa), put(xo, so);
      if (r_.chance(2)) put(xb, sb);
    }
    const std::string a = input(sa), b = input(sb), name = fresh();
    std::vector<std::string> reads{bracket(a, xa), bracket(b, xb)};
    if (r_.chance(6)) reads.push_back(bracket(input({k}), {"k"}));
    if (narrow_) return product(name, so, xo, reads);
    const std::string body = r_.chance(2) ? fmt::format("{}", fmt::join(reads, " * ")) : value(reads, {"i", "j", "k"});
    statement(name, so, fmt::format("{} = {}({}){};", target(name, xo, so), fold(), body, clause(so)));
    if (r_.chance(2)) epilogue(r_.between(1, 3));
  }

  // Two products and a softmax between them, over all columns, those up to the row's, or a band.
  void attention() {
    kind_ += "attention ";
    const std::int64_t heads = r_.between(2, 3), t = r_.pick({7, 33, 50}), s = r_.pick({5, 31, 64, 70}),
                       d = r_.pick({3, 16, 24, 40}), e = r_.pick({2, 8, 17, 32});
    const bool tq = r_.chance(4), tk = r_.chance(4), tv = r_.chance(4), rounded = r_.chance(4);
    const auto side = [&](bool turned, std::int64_t a, std::int64_t b) {
      return turned ? Shape{heads, b, a} : Shape{heads, a, b};
    };
    const auto read = [&](const std::string& x, bool turned, const char* a, const char* b) {
      return fmt::format("f32({}[h, {}, {}])", x, turned ? b : a, turned ? a : b);
    };
    const std::string q = input(side(tq, t, d), type_), k = input(side(tk, s, d), type_),
                      v = input(side(tv, s, e), type_), score = fresh(), x = fresh(), m = fresh(), p = fresh(),
                      z = fresh(), u = fresh();
    const std::string bounds = r_.pick({"", ", s <= t", ", s <= t, t - s < 9"}),
                      scaled = fmt::format("{}[h, t, s] / {}", score, r_.pick({2, 8, 3})) +
        (r_.chance(3) ? fmt::format(" + {}[t, s]", input({t, s}, DType::F32)) : "");
    const Shape scores{heads, t, s}, row{heads, t}, out{heads, t, e};
    const auto one = [&](const std::string& name, const Shape& shape, const char* indices, const char* how,
                         const std::string& of) {
      statement(name, shape,
          fmt::format("{}[{}: {}] = {}({}){};", name, indices, fmt::join(shape, ", "), how, of, bounds), true, false);
    };
    // of one value: what is computed twice may differ by more than exp bears
    const std::string weight = rounded ? fmt::format("f32({}[h, t, s])", p) : p + "[h, t, s]",
                      shifted = fmt::format("exp({}[h, t, s] - {}[h, t])", x, m);
    one(score, scores, "h, t, s", "+", read(q, tq, "t", "d") + " * " + read(k, tk, "s", "d"));
    one(x, scores, "h, t, s", "=", scaled);
    one(m, row, "h, t", ">", x + "[h, t, s]");
    one(p, scores, "h, t, s", "=", rounded ? fmt::format("{}({})", tilec::lang::name(type_), shifted) : shifted);
    one(z, row, "h, t", "+", weight);
    one(u, out, "h, t, e", "+", weight + " * " + read(v, tv, "s", "e"));
    if (!bounds.empty()) return;
    const std::string name = fresh();
    statement(name, out, fmt::format("{}[h, t, e: {}] = =({}[h, t, e] / {}[h, t]);", name, fmt::join(out, ", "), u, z),
        true, false);
  }

  // The sums are wider than the factors, or not.
  void product(const std::string& name, const Shape& shape, const std::vector<std::string>& target_indices,
      const std::vector<std::string>& reads) {
    const bool wide = !real() || r_.chance(2);
    std::vector<std::string> factors;
    for (const std::string& read : reads)
      factors.push_back(wide ? fmt::format("{}({})", real() ? "f32" : "i32", read) : read);
    statement(name, shape, fmt::format("{} = +({});", target(name, target_indices, shape), fmt::join(factors, " * ")));
  }

  // ---- windows

  void window() {
    kind_ += "window ";
    const int spatial = r_.between(1, 2), stride = r_.between(1, 3), dilation = r_.chance(3) ? 2 : 1, pad = r_.below(3);
    const bool channels_last = r_.chance(2), pool = r_.chance(4), depthwise = !pool && r_.chance(4),
               transposed = r_.chance(5), exact = r_.chance(3);
    const std::int64_t batch = r_.between(1, 2), ci = r_.pick({1, 2, 3, 5, 8}), co = r_.pick({1, 3, 4, 8, 16, 17});
    Shape in, out, taps;
    std::vector<std::string> xi, xo, xk, bounds;
    for (int s = 0; s < spatial; ++s) {
      const std::string o(1, "xy"[s]), k(1, "uv"[s]);
      const std::int64_t length = spatial == 2 ? r_.between(3, 8) : size(), window = r_.between(1, 4);
      const std::string tap = dilation > 1 ? fmt::format("{}*{}", dilation, k) : k;
      const std::string at = fmt::format(
          "{}{} + {}{}", stride > 1 ? fmt::format("{}*", stride) : "", o, tap, pad ? fmt::format(" - {}", pad) : "");
      const std::int64_t many = (length + stride - 1) / stride;
      in.push_back(transposed ? many : length),
          out.push_back(transposed ? length
                  : exact          ? std::max<std::int64_t>(0, (length - dilation * (window - 1) + stride - 1) / stride)
                                   : many);
      taps.push_back(window);
      xi.push_back(transposed ? o : at), xo.push_back(transposed ? at : o), xk.push_back(k);
      if (pool) bounds.push_back(fmt::format("{} < {}", k, window));
    }
    const auto put = [&](std::vector<std::string>& x, Shape& s, const std::string& channel, std::int64_t c) {
      if (channels_last) x.push_back(channel), s.push_back(c);
      else x.insert(x.begin(), channel), s.insert(s.begin(), c);
      x.insert(x.begin(), "n"), s.insert(s.begin(), batch);
    };
    const bool shared = pool || depthwise;
    put(xi, in, shared ? "c" : "ci", shared ? co : ci);
    put(xo, out, shared ? "c" : "co", co);
    const std::string image = input(in), name = fresh();
    std::vector<std::string> reads{bracket(image, xi)};
    if (!pool) {
      if (depthwise) taps.push_back(co), xk.push_back("c");
      else if (channels_last) taps.push_back(ci), taps.push_back(co), xk.push_back("ci"), xk.push_back("co");
      else taps.insert(taps.begin(), {co, ci}), xk.insert(xk.begin(), {"co", "ci"});
      reads.push_back(bracket(input(taps), xk));
    }
    const std::string body = r_.chance(4) ? value(reads, {"x", "u"}) : fmt::format("{}", fmt::join(reads, " * "));
    std::string extra;
    for (const std::string& b : bounds) extra += ", " + b;
    statement(name, out,
        fmt::format("{} = {}({}){}{};", target(name, xo, out),
            pool               ? fold()
                : r_.chance(6) ? fold()
                               : "+",
            body, extra, clause(out)));
    if (r_.chance(3)) epilogue(r_.between(1, 2));
  }

  // ---- residue classes

  void fraction() {
    kind_ += "fraction ";
    const std::int64_t n = size(), m = size(), c = r_.pick({1, 1, 3, 8, 17});
    const int d = r_.between(2, 4), e = r_.between(1, 3);
    const std::string name = fresh();
    const bool wide = r_.chance(2);
    Shape out{n}, in{m};
    std::string xo = "i", xi;
    switch (r_.below(4)) {
      case 0: xi = fmt::format("(i + {})/{}", r_.below(3), d); break;
      case 1: xi = fmt::format("(i - k)/{}", d); break;
      case 2: xi = fmt::format("({}*i + {})/{}", e, r_.below(3), d); break;
      default: xo = fmt::format("{}*i + {}*j", d, e), xi = "i"; break;
    }
    std::vector<std::string> reads;
    std::string extra;
    if (xi == "i")
      reads = {fmt::format("{}[i{}]", input(wide ? Shape{m, c} : Shape{m}), wide ? ", c" : ""),
          fmt::format("{}[j]", input({r_.between(1, 5)}))};
    else {
      reads = {fmt::format("{}[{}{}]", input(wide ? Shape{m, c} : Shape{m}), xi, wide ? ", c" : "")};
      if (xi.find('k') != std::string::npos) reads.push_back(fmt::format("{}[k]", input({r_.between(1, 5)})));
    }
    if (wide) out.push_back(c);
    statement(name, out,
        fmt::format("{} = {}({}){};",
            target(name, wide ? std::vector<std::string>{xo, "c"} : std::vector<std::string>{xo}, out), fold(),
            value(reads, {}), clause(out)));
  }

  // Targets that several indices share, with coefficients that make many classes.
  void lattice() {
    kind_ += "lattice ";
    const int count = r_.between(2, 3), dims = r_.chance(4) ? 2 : 1;
    std::vector<std::string> x, sum, xo;
    Shape in, out;
    for (int k = 0; k < count; ++k) x.push_back(std::string(1, "ijk"[k])), in.push_back(r_.between(1, 9));
    for (int d = 0; d < dims; ++d) {
      std::string form;
      for (const std::string& i : x)
        if (dims == 1 || !r_.chance(3))
          form += fmt::format(
              "{}{}*{}", form.empty() ? "" : r_.pick({" + ", " + ", " - "}), r_.between(1, dims == 1 ? 13 : 3), i);
      xo.push_back((form.empty() ? x[0] : form) + (r_.chance(3) ? fmt::format(" + {}", r_.below(9)) : ""));
      out.push_back(dims == 1 ? r_.between(1, 300) : r_.between(1, 20));
    }
    std::vector<std::string> reads{bracket(input(in), x)};
    if (r_.chance(3)) reads.push_back(fmt::format("{}[{}]", input({in[0]}), x[0]));
    const std::string name = fresh();
    statement(name, out,
        fmt::format("{} = {}({}){}{};", target(name, xo, out), fold(), value(reads, x),
            r_.chance(4) ? fmt::format(", {} <= {}", x[0], x[1]) : "", clause(out)));
  }

  // ---- rows of the domain

  void triangle() {
    kind_ += "triangle ";
    const std::int64_t n = size(), m = size(), c = r_.pick({1, 2, 4, 17});
    const std::string constraint = r_.pick({"j <= i", "i + j < 6", "0 <= i - j < 3", "j >= i", "2*j <= i",
        "0 <= i + 2*j - 3 < 5", "j <= i, j >= i - 4", "3*j - i < 7"});
    const std::string name = fresh();
    if (r_.chance(2)) {
      std::vector<std::string> reads{fmt::format("{}[j]", input({m}))};
      if (r_.chance(2)) reads.push_back(fmt::format("{}[i, j]", input({n, m})));
      statement(name, {n},
          fmt::format("{}[i: {}] = {}({}), {}{};", name, n, fold(), value(reads, {"i", "j"}), constraint, clause({n})));
    } else {
      const std::string a = input({n, m}), b = input({m, c});
      const bool swap = r_.chance(3);
      const Shape out = swap ? Shape{c, n} : Shape{n, c};
      statement(name, out,
          fmt::format("{} = {}({}), {}{};",
              target(name, swap ? std::vector<std::string>{"c", "i"} : std::vector<std::string>{"i", "c"}, out), fold(),
              value({a + "[i, j]", b + "[j, c]"}, {"i", "j"}), constraint, clause(out)));
    }
  }

  // Triangles that are scans: both ends, strides, places of the index, further indices, defaults.
  void scan() {
    kind_ += "scan ";
    const bool large = r_.chance(12);
    const std::int64_t n = large ? std::int64_t{r_.pick({509, 997, 2053})} : r_.chance(3) ? r_.between(1, 130) : size();
    const std::int64_t m = large || r_.chance(2) ? n : r_.chance(2) ? n + r_.between(0, 9) : size();
    const std::int64_t c = large ? r_.between(1, 2) : r_.pick({1, 2, 3, 8, 17, 40});
    const int rank = r_.below(3);                      // other indices: none, r before, c behind, both
    const bool before = rank > 0 && r_.chance(2), behind = rank > 0 && (!before || rank == 2);
    const std::int64_t rows = large ? 2 : r_.pick({1, 2, 5, 33});
    std::vector<std::string> at, read;
    Shape out, in;
    const auto add = [&](const std::string& place, std::int64_t extent, const std::string& from,
                         std::int64_t from_extent) {
      at.push_back(place), out.push_back(extent);
      if (!from.empty()) read.push_back(from), in.push_back(from_extent);
    };
    const std::string k = r_.pick<std::string>(
        {"k", "k", "k", "k + 1", "2*k", std::to_string(std::max<std::int64_t>(0, m - 1)) + " - k"});
    if (before) add("r", rows, r_.chance(8) ? "" : "r", rows);
    const int stride = r_.chance(6) ? 2 : 1, shift = r_.chance(4) ? r_.between(0, 2) : 0;
    add(stride == 1 && shift == 0 ? "j" : fmt::format("{}*j + {}", stride, shift), n * stride + shift, k,
        k == "2*k" ? 2 * m : m);
    if (behind) add("c", c, "c", c);
    const std::string constraint = r_.pick<std::string>({"k <= j", "k <= j", "k < j", "k >= j", "k >= j + 1",
        fmt::format("k <= j + {}", r_.between(-20, 20)), fmt::format("k >= j + {}", r_.between(-20, 20)),
        fmt::format("k + j < {}", r_.between(0, 40)), fmt::format("k + j >= {}", r_.between(0, 40)), "2*k <= 3*j + 1",
        "3*k >= 2*j - 5", "3*k + 2*j < 30", "j <= 7, k <= j"});
    std::vector<std::string> reads, indices{"k"};
    const bool further = !large && r_.chance(5);
    if (further) read.push_back("d"), in.push_back(r_.between(1, 9)), indices.push_back("d");
    reads.push_back(bracket(input(in), read));
    if (r_.chance(3)) reads.push_back(fmt::format("{}[{}]", input({m}), k == "2*k" || k == "k + 1" ? "k" : k));
    if (behind && r_.chance(4)) reads.push_back(fmt::format("{}[c]", input({c})));
    const std::string name = fresh();
    statement(name, out,
        fmt::format("{} = {}({}), {}{};", target(name, at, out),
            r_.pick({"+", "+", "+", ">", "<", smooth_ ? "+" : "*"}), value(reads, indices), constraint, clause(out)));
  }

  // Products under conditions that depend on some of the indices, rows and lanes among them.
  void asked() {
    kind_ += "asked ";
    const std::vector<std::string> x{"i", "j", "k", "l"};
    const Shape extents{r_.chance(2) ? size() : r_.between(4, 13), r_.chance(2) ? size() : r_.pick({8, 17, 33, 64}),
        r_.chance(2) ? size() : r_.between(5, 40), r_.between(1, 3)};
    const auto of = [&](const std::string& indices, DType type) {
      Shape shape;
      std::vector<std::string> at;
      for (std::size_t d = 0; d < x.size(); ++d)
        if (indices.find(x[d]) != std::string::npos) shape.push_back(extents[d]), at.push_back(x[d]);
      return bracket(input(shape, type), at);
    };
    const auto condition = [&] {
      const std::string first = of(r_.pick<std::string>({"k", "k", "kl", "l", "ik", "i", "jk"}), DType::F32);
      if (r_.chance(4))
        return fmt::format("{} == i32({}) + {}", r_.pick<std::string>({"i", "k", "l", "j"}), first, r_.below(3));
      const std::string other = r_.chance(2) ? of(r_.pick<std::string>({"k", "i"}), DType::F32) : "0.25";
      return fmt::format("{} {} {}", first, r_.pick<std::string>({"<", ">", "!="}), other);
    };
    const bool least = real() && r_.chance(6);
    const std::string nothing = least ? "inf" : "0",
                      term = fmt::format("{} {} {}", of(r_.pick<std::string>({"ik", "ikl", "k"}), type_),
                          least ? "+" : "*", of(r_.pick<std::string>({"kj", "kjl", "j"}), type_));
    std::string body = r_.chance(5) ? fmt::format("{} ? {} : {}", condition(), nothing, term)
                                    : fmt::format("{} ? {} : {}", condition(), term, nothing);
    if (r_.chance(3)) body = fmt::format("{} ? ({}) : {}", condition(), body, nothing);
    const std::string rows = r_.pick<std::string>({"", "", "", ", k <= i", ", k >= i - 2", ", k <= 2*j", ", k + l < 9"});
    const bool swap = r_.chance(4);
    const std::vector<std::string> at = swap ? std::vector<std::string>{"j", "i"} : std::vector<std::string>{"i", "j"};
    const Shape out = swap ? Shape{extents[1], extents[0]} : Shape{extents[0], extents[1]};
    const std::string name = fresh(), ranges = fmt::format(", 0 <= k < {}, 0 <= l < {}", extents[2], extents[3]);
    statement(name, out,
        fmt::format("{} = {}({}){}{}{};", target(name, at, out), least ? "<" : "+", body, rows, ranges, clause(out)));
  }

  // Sums under a triangle of products some factors of which do not depend on the summed index: as one statement or two,
  // by a constraint, a condition or a difference.
  void factored() {
    kind_ += "factored ";
    const std::int64_t n = r_.chance(10) ? size() : r_.between(9, 32), m = r_.chance(2) ? n : r_.between(9, 32),
                       d = r_.between(1, 5), e = r_.between(1, 5);
    const bool batch = r_.chance(5), difference = r_.chance(5);
    const std::int64_t b = r_.between(1, 2);
    const auto read = [&](const std::string& first, std::int64_t extent, const std::string& other,
                          std::int64_t other_extent) {
      Shape shape;
      std::vector<std::string> at;
      const auto add = [&](const std::string& index, std::int64_t count) {
        if (!index.empty()) at.push_back(index), shape.push_back(count);
      };
      if (batch && !r_.chance(4)) add("b", b);
      add(first, extent);
      add(other, other_extent);
      return bracket(input(shape, type_), at);
    };
    const std::string s = difference ? "t - s" : "s";
    const std::string constraint = difference
        ? r_.pick<std::string>({"s >= 0", "s >= 1", "0 <= s < " + std::to_string(n), "s >= -2", "0 <= s < 5"})
        : r_.pick<std::string>({"s <= t", "s < t", "t - s >= 0", "0 <= t - s", "s >= t", "s > t",
              fmt::format("s <= t + {}", r_.between(-9, 9)), fmt::format("s + t < {}", r_.between(0, 60)), "2*s <= t",
              "s <= 2*t", "2*s <= 3*t + 1", "0 <= t - s < 4", "s <= t, s >= 2"});
    Shape out;
    std::vector<std::string> at;
    if (batch) at.push_back("b"), out.push_back(b);
    if (!r_.chance(8)) at.push_back("t"), out.push_back(n);
    const bool wide = r_.chance(2);
    if (wide) at.push_back("e"), out.push_back(e);
    const std::string q = read("t", n, r_.chance(4) ? "" : "d", d), k = read(s, m, "d", d),
                      v = read(s, m, wide ? "e" : "", e);
    const std::string name = fresh();
    const bool masked = !difference && r_.chance(5) && constraint.find(',') == std::string::npos &&
        constraint.find("< 4") == std::string::npos;
    if (!difference && r_.chance(5) && std::find(at.begin(), at.end(), "t") != at.end()) {
      Shape square{n, m};
      std::vector<std::string> places{"t", "s"};
      if (batch) square.insert(square.begin(), b), places.insert(places.begin(), "b");
      statement(name, square,
          fmt::format("{} = +({} * {}){};", target(name, places, square), q, k, r_.chance(2) ? ", " + constraint : ""));
      const std::string next = fresh();
      return statement(next, out,
          fmt::format(
              "{} = +({} * {}), {}{};", target(next, at, out), bracket(name, places), v, constraint, clause(out)));
    }
    std::vector<std::string> factors{q, k};
    if (wide || r_.chance(2)) factors.push_back(v);
    if (r_.chance(4)) factors.push_back(read("t", n, "", 0));
    if (r_.chance(6)) factors.push_back(real() ? "0.5" : "3");
    std::string how = "+", body;
    if (r_.chance(6)) {
      how = r_.pick({">", "<"});
      body = r_.chance(2) ? fmt::format("{} + {}", q, k) : fmt::format("{}({}, {})", r_.pick({"max", "min"}), q, k);
      if (wide) body = fmt::format("max({}, {})", body, v);
    } else {
      for (std::size_t f = factors.size(); f > 1; --f)
        std::swap(factors[f - 1], factors[static_cast<std::size_t>(r_.below(static_cast<int>(f)))]);
      body = factors[0];
      for (std::size_t f = 1; f < factors.size(); ++f)
        body = r_.chance(3) ? fmt::format("{} * ({})", factors[f], body) : fmt::format("{} * {}", body, factors[f]);
      if (r_.chance(6)) body = fmt::format("-({}) / (abs({}) + 1)", body, q);
      if (r_.chance(6)) body = fmt::format("{} > 0 ? {} : 0", q, body);
      if (masked) body = fmt::format("{} ? {} : 0", constraint, body);
    }
    const bool bounded = !masked || how != "+";
    statement(name, out,
        fmt::format(
            "{} = {}({}){}{};", target(name, at, out), how, body, bounded ? ", " + constraint : "", clause(out)));
  }

  // Sums of products over intervals: which ends count, in which direction, with further sums and factors.
  void gated() {
    kind_ += "gated ";
    if (!real()) type_ = DType::F32;
    const std::int64_t n = r_.chance(8) ? size() : r_.between(2, 19), d = r_.pick({1, 2, 8, 17}), e = r_.between(1, 4);
    const bool reversed = r_.chance(4), last = r_.chance(3), wide = r_.chance(4), further = wide && r_.chance(2);
    const std::string first = reversed ? "t" : "s", second = reversed ? "s" : "t";
    const auto ordered = [&](const char* a, const char* b) {
      return fmt::format("{} {} {}", a, r_.pick({"<=", "<=", "<"}), b);
    };
    const auto at = [&](const std::string& index, const std::string& other) {
      return last ? std::vector<std::string>{other, index} : std::vector<std::string>{index, other};
    };
    const auto shape = [&](std::int64_t other) { return last ? Shape{other, n} : Shape{n, other}; };
    const std::string gates = input(shape(d), type_), x = input(shape(wide ? e : d), type_),
                      gate = bracket(gates, at("u", "d"));
    const std::string product = fresh();
    statement(product, {n, n, d},
        fmt::format("{} = *({}), {}, {}{};", target(product, {"t", "s", "d"}, {n, n, d}),
            r_.pick<std::string>({gate, gate, fmt::format("1 - {}", gate), fmt::format("{} * 0.5", gate)}),
            ordered(first.c_str(), "u"), ordered("u", second.c_str()), r_.chance(4) ? "" : " default 1"));
    std::vector<std::string> factors{bracket(product, {"t", "s", "d"}), bracket(x, at("s", wide ? "e" : "d"))};
    if (r_.chance(3)) factors.push_back(fmt::format("(1 - {})", bracket(gates, at("s", "d"))));
    if (further || r_.chance(3)) factors.push_back(bracket(input(shape(d), type_), at("t", "d")));
    if (r_.chance(2)) std::swap(factors.front(), factors.back());
    std::vector<std::string> out = at("t", wide ? "e" : "d");
    Shape extents = shape(wide ? e : d);
    if (wide && !further) out.push_back("d"), extents.push_back(d);
    const std::string name = fresh();
    statement(name, extents,
        fmt::format("{} = +({}), {}{};", target(name, out, extents), fmt::join(factors, " * "),
            r_.pick<std::string>({fmt::format("{} <= {}", first, second), fmt::format("{} < {}", first, second),
                fmt::format("{} + 2 <= {}", first, second)}),
            clause(extents)));
  }

  void unique() {
    kind_ += "unique ";
    const std::int64_t n = size(), m = size(), c = r_.pick({1, 3, 16, 20});
    const std::string name = fresh();
    switch (r_.below(5)) {
      case 0:
        statement(
            name, {n}, fmt::format("{}[i: {}] = =({}[k]), 0 <= 2*k - i < 2{};", name, n, input({m}), clause({n})));
        break;
      case 1:
        statement(name, {n, c},
            fmt::format(
                "{}[i, c: {}, {}] = =({}[k, c] * 2), 0 <= 3*k - i < 3{};", name, n, c, input({m, c}), clause({n, c})));
        break;
      case 2: statement(name, {}, fmt::format("{}[] = =({}[k]), k >= {}, k <= {};", name, input({m}), 1, 1)); break;
      case 3:
        statement(name, {n},
            fmt::format("{}[2*i + 1: {}] = =({}[i + k, k]), 0 <= 2*k - 3 < 2{};", name, n, input({m, 5}), clause({n})));
        break;
      default:
        statement(name, {n, n}, fmt::format("{}[i, i: {}, {}] = =({}[i]){};", name, n, n, input({m}), clause({n, n})));
        break;
    }
  }

  // Each writes some elements, perhaps some that are written already, and keeps the rest of the one before.
  void overlays() {
    kind_ += "overlays ";
    Shape shape;
    for (int d = 0; d < r_.between(1, 2); ++d) shape.push_back(size());
    std::string under = clause(shape);
    for (int turn = 0; turn < r_.between(2, 4); ++turn) {
      const std::string name = fresh();
      std::vector<std::string> elements, indices;
      Shape read;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (r_.chance(6)) {
          elements.push_back(std::to_string(r_.below(2)));
          continue;
        }
        indices.push_back(fmt::format("i{}", d));
        read.push_back(r_.chance(3) ? r_.between(0, 3) : std::max<std::int64_t>(shape[d], 0));
        elements.push_back(r_.chance(5)
                ? fmt::format("{} - {}", shape[d], indices.back())
                : fmt::format("{}*{} + {}", r_.pick({1, 1, 2, 3}), indices.back(), r_.below(3)));
      }
      statement(name, shape,
          fmt::format("{} = ={}{};", target(name, elements, shape),
              "(" + (indices.empty() ? input({}) + "[]" : bracket(input(read), indices)) + ")", under));
      under = " default " + name;
    }
  }

  // ---- shared rows

  void rows() {
    kind_ += "rows ";
    if (!real()) type_ = float_type();
    Shape shape;
    const int rank = r_.between(1, 3);
    for (int d = 0; d < rank; ++d) shape.push_back(d + 1 == rank ? size() : r_.between(1, 9));
    std::string x = input(shape);
    std::vector<std::string> outer;
    Shape leading(shape.begin(), shape.end() - 1);
    for (int d = 0; d + 1 < rank; ++d) outer.push_back(std::string(1, "pq"[d]));
    std::vector<std::string> all = outer;
    all.push_back("j");
    if (r_.chance(2) && rank == 2) {
      const std::int64_t k = size();
      const std::string a = input({shape[0], k}), b = input({k, shape[1]});
      const std::string name = fresh();
      statement(name, shape, fmt::format("{}[p, j: {}, {}] = +({}[p, k] * {}[k, j]);", name, shape[0], shape[1], a, b));
      x = name;
    }
    const std::string head =
        outer.empty() ? "[]" : fmt::format("[{}: {}]", fmt::join(outer, ", "), fmt::join(leading, ", "));
    const std::string full = fmt::format("[{}: {}]", fmt::join(all, ", "), fmt::join(shape, ", "));
    const std::string short_read = fmt::format("[{}]", fmt::join(outer, ", ")),
                      long_read = fmt::format("[{}]", fmt::join(all, ", "));
    const std::string m = fresh(), e = fresh(), s = fresh(), y = fresh();
    if (r_.chance(3)) {
      statement(m, leading, fmt::format("{}{} = +({}{});", m, head, x, long_read));
      statement(e, shape,
          fmt::format("{}{} = =({}{} - {}{} / {});", e, full, x, long_read, m, short_read,
              std::max<std::int64_t>(1, shape.back())));
      statement(s, leading, fmt::format("{}{} = +({}{} * {}{});", s, head, e, long_read, e, long_read));
      statement(y, shape, fmt::format("{}{} = =({}{} / sqrt({}{} + 0.01));", y, full, e, long_read, s, short_read));
    } else {
      statement(m, leading, fmt::format("{}{} = >({}{});", m, head, x, long_read));
      statement(e, shape, fmt::format("{}{} = =(exp({}{} - {}{}));", e, full, x, long_read, m, short_read));
      statement(s, leading, fmt::format("{}{} = +({}{});", s, head, e, long_read));
      statement(y, shape, fmt::format("{}{} = =({}{} / {}{});", y, full, e, long_read, s, short_read));
    }
    if (r_.chance(3) && rank == 2) {
      const std::int64_t n = size();
      const std::string name = fresh();
      statement(name, {shape[0], n},
          fmt::format("{}[p, c: {}, {}] = +({}[p, j] * {}[j, c]);", name, shape[0], n, y, input({shape[1], n})));
    }
  }

  // ---- elementwise

  void chain() {
    kind_ += "chain ";
    Shape shape;
    for (int rank = r_.below(5), d = 0; d < rank; ++d) shape.push_back(points(shape) > 400 ? r_.between(1, 3) : size());
    const std::string a = input(shape), name = fresh();
    statement(name, shape, fmt::format("{} = {} + {};", name, a, r_.pick({"1", "2", "0"})));
    epilogue(r_.between(1, 5));
  }

  // A tensor that broadcasts to `shape`, of any type.
  std::string broadcast(const Shape& shape) {
    if (r_.chance(2))
      for (int tries = 0; tries < 6; ++tries) {
        const Known& k = r_.pick(known_);
        if (k.shape == shape) return k.name;
      }
    if (r_.chance(6)) return r_.pick({"2", "3", "0.5"});
    Shape s(shape.begin() + r_.below(static_cast<int>(shape.size()) + 1), shape.end());
    for (std::int64_t& n : s) if (r_.chance(5)) n = 1;
    return input(s);
  }

  void epilogue(int statements) {
    kind_ += "epilogue ";
    for (int n = 0; n < statements; ++n) {
      const Known from = known_.back();
      const std::string x = r_.chance(5) ? broadcast(from.shape) : from.name, y = broadcast(from.shape), name = fresh();
      const auto line = [&](const std::string& e, bool is_real, bool integer) {
        statement(name, from.shape, fmt::format("{} = {};", name, e), is_real, integer);
      };
      const bool re = from.real;
      switch (r_.below(smooth_ ? 12 : 24)) {
        case 0: line(fmt::format("{} + {}", x, y), re, !re); break;
        case 1: line(fmt::format("{} * {}", x, y), re, !re); break;
        case 2: line(fmt::format("relu({} - {})", from.name, y), re, !re); break;
        case 3: line(fmt::format("max({}, {})", x, y), re, !re); break;
        case 4: line(fmt::format("{} > {} ? {} : {}", x, y, from.name, y), re, !re); break;
        case 5: line(fmt::format("exp({} * 0.0625)", from.name), true, false); break;
        case 6: line(fmt::format("tanh({})", from.name), true, false); break;
        case 7: line(fmt::format("{} / (abs({}) + 1)", x, from.name), re, !re); break;
        case 8: line(fmt::format("sigmoid({}) * {}", from.name, from.name), true, false); break;
        case 9: line(fmt::format("f16({})", from.name), true, false); break;
        case 10: line(fmt::format("f32({}) - {}", from.name, y), true, false); break;
        case 11: line(fmt::format("sin({}) + cos({})", from.name, from.name), true, false); break;
        case 12: line(fmt::format("i8({})", from.name), false, true); break;
        case 13: line(fmt::format("u16({}) + {}", from.name, y), false, true); break;
        case 14: line(fmt::format("{} == {}", x, y), false, false); break;
        case 15: line(fmt::format("bf16({}) * 2", from.name), true, false); break;
        case 16: line(fmt::format("mod({}, {})", x, from.name), re, !re); break;
        case 17: line(fmt::format("floor({} / 2) + ceil({})", from.name, from.name), re, !re); break;
        case 18:
          line(from.integer ? fmt::format("{} & 7 | 1", from.name) : fmt::format("round({})", from.name), re, !re);
          break;
        case 19:
          line(from.integer ? fmt::format("{} << 3 >> 2", from.name) : fmt::format("trunc({})", from.name), re, !re);
          break;
        case 20: line(fmt::format("i64({}) * {}", from.name, x), false, true); break;
        case 21: line(fmt::format("sign({}) - {}", from.name, x), re, !re); break;
        case 22: line(fmt::format("f64({}) / 3", from.name), true, false); break;
        default: line(fmt::format("min({}, -{})", x, from.name), re, !re); break;
      }
    }
  }

  // ---- few outputs

  void total() {
    kind_ += "total ";
    const std::string name = fresh();
    const bool huge = r_.chance(12);
    const std::int64_t n = huge ? r_.pick({70001, 131072, 99990}) : r_.pick({1, 5, 63, 64, 65, 257, 1000, 3001});
    switch (r_.below(3)) {
      case 0: statement(name, {}, fmt::format("{}[] = {}({});", name, fold(), value({input({n}) + "[i]"}, {}))); break;
      case 1: {
        const std::int64_t c = r_.pick({1, 2, 3, 16});
        statement(
            name, {c}, fmt::format("{}[c: {}] = {}({});", name, c, fold(), value({input({n / c, c}) + "[i, c]"}, {})));
        break;
      }
      default: {
        const std::int64_t c = r_.pick({1, 2, 5});
        statement(name, {c},
            fmt::format("{}[c: {}] = {}({});", name, c, fold(),
                value({input({c, n / c}) + "[c, i]", input({n / c}) + "[i]"}, {})));
      }
    }
  }

  Random& r_;
  bool smooth_, narrow_;
  DType type_ = DType::F32;
  std::vector<Input> inputs_;
  std::vector<Known> known_;
  std::string body_, last_, kind_;
  int count_ = 0;
};

}  // namespace

Program random_program(Random& random, bool smooth, bool narrow) { return Builder(random, smooth, narrow).build(); }

}  // namespace backends
