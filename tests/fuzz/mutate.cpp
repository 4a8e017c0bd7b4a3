#include "mutate.h"

#include <algorithm>
#include <cctype>

namespace fuzz {

namespace {

using Text = std::vector<std::string>;

constexpr std::string_view vocabulary[] = {"function", "->", "default", "no_defract", "no_reduce", "import", "dim",
    "gradient", "tangent", "[[ties(first)]]", "[[ties(all)]]", "[[name(k)]]", "[[recompute]]", "f16", "bf16", "f32",
    "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool", "+", "-", "*", "/", "<", ">",
    "<=", ">=", "==", "!=", "<<", ">>", "&", "|", "^", "~", "?", ":", "=", "(", ")", "[", "]", "{", "}", ",", ";", "[]",
    "()", "exp", "log", "sqrt", "tanh", "sin", "relu", "max", "min", "abs", "pow", "div", "mod", "sum", "product",
    "assign", "reshape", "index", "gather", "scatter", "element", "tuple", "rsqrt", "sigmoid", "inf", "nan", "-inf",
    "i", "j", "k", "i/2", "2*i", "3 - i", "i + j", "(i - j)/3", "N", "M", "K", "N - 1", "N/2", "div(N, 2)", "max(N, 0)",
    "A", "B", "O", "X", "#a", "$N", "A'", ", i < 3", ", 0 <= i - j < 4", ", i == 2*j", ", j <= i", ", i >= 1",
    " default 1.5", " default -inf", " ? ", "A[i]", "A[i, j]", "A[2*i + 1, 3 - j]", "A < B ? A : B", "f16(A[i])",
    "i32(A[i])", "T[i, j: 4, 3] = =(A[i] * B[j]);", "R[] = +(A[i]);", "Y[i: N] = >(A[i, j]);", "Y = relu(A) + 1;",
    "// x", "/*", "*/", "\"", "\\", "\xc3\xa9", "\0"};

constexpr std::string_view numbers[] = {"0", "1", "2", "3", "4", "5", "7", "8", "9", "15", "16", "17", "31", "32", "33",
    "64", "100", "127", "128", "255", "256", "1000", "65536", "1000000007", "2147483647", "2147483648", "4294967295",
    "4294967296", "4611686018427387903", "4611686018427387904", "9223372036854775807", "9223372036854775808",
    "18446744073709551615", "18446744073709551616", "0.0", "0.5", "1.0", "1e300", "1e-320", "1e400", "3.4e38", "1e-45",
    "65504.0", "65520.0"};

std::size_t below(Engine& engine, std::size_t n) { return n == 0 ? 0 : engine() % n; }
template <class C> auto pick(const C& all, Engine& engine) { return all[below(engine, std::size(all))]; }

bool is_number(const std::string& token) {
  return !token.empty() && std::isdigit(static_cast<unsigned char>(token[0]));
}
bool is_word(const std::string& token) {
  return !token.empty() && (std::isalpha(static_cast<unsigned char>(token[0])) || token[0] == '#' || token[0] == '$');
}
bool is_space(const std::string& token) { return token.empty() || std::isspace(static_cast<unsigned char>(token[0])); }

Text split(std::string_view text) {
  Text result;
  for (const std::string_view token : tokens(text)) result.emplace_back(token);
  return result;
}

std::string join(const Text& text) {
  std::string result;
  for (const std::string& token : text) result += token;
  return result;
}

// A position whose token is of the kind; any position when there is none.
template <class Kind> std::size_t find(const Text& text, Engine& engine, Kind kind) {
  const std::size_t start = below(engine, text.size());
  for (std::size_t k = 0; k < text.size(); ++k)
    if (const std::size_t at = (start + k) % text.size(); kind(text[at])) return at;
  return start;
}

auto at(Text& text, std::size_t position) { return text.begin() + static_cast<std::ptrdiff_t>(position); }

// [begin, end) of the statement, or whatever lies between two `;`, around a position.
std::pair<std::size_t, std::size_t> statement(const Text& text, std::size_t position) {
  std::size_t begin = position, end = position;
  while (begin > 0 && text[begin - 1] != ";" && text[begin - 1] != "{") --begin;
  while (end < text.size() && text[end] != ";" && text[end] != "}") ++end;
  return {begin, std::min(end + 1, text.size())};
}

// Two tokens of one kind change places: `A[i] * B[j]` ⇒ `A[j] * B[i]`.
void exchange(Text& text, Engine& engine) {
  const std::size_t a = find(text, engine, [](const std::string& t) { return !is_space(t); });
  const std::size_t b = find(text, engine, [&](const std::string& t) {
    return is_word(t) == is_word(text[a]) && is_number(t) == is_number(text[a]) && !is_space(t);
  });
  std::swap(text[a], text[b]);
}

void change_number(Text& text, Engine& engine) {
  std::string& number = text[find(text, engine, is_number)];
  if (!is_number(number) || below(engine, 3) != 0) {
    number = pick(numbers, engine);
    return;
  }
  if (number.size() < 18 && number.find_first_not_of("0123456789") == std::string::npos)
    number = std::to_string(std::stoll(number) + static_cast<std::int64_t>(below(engine, 5)) - 2);
  else number = "-" + number;
}

void drop_or_repeat(Text& text, Engine& engine) {
  const auto [begin, end] = below(engine, 2) == 0 ? statement(text, below(engine, text.size())) : [&] {
    const std::size_t from = below(engine, text.size());
    return std::pair{from, std::min(text.size(), from + 1 + below(engine, 4))};
  }();
  if (below(engine, 2) == 0) {
    text.erase(at(text, begin), at(text, end));
    return;
  }
  const Text part(at(text, begin), at(text, end));
  text.insert(at(text, end), part.begin(), part.end());
}

// `x` ⇒ `((((x))))`, many times.
void nest(Text& text, Engine& engine) {
  static constexpr std::pair<std::string_view, std::string_view> around[] = {{"(", ")"}, {"-", ""}, {"exp(", ")"},
      {"A[", "]"}, {"(", " ? 1 : 2)"}, {"1 + ", ""}, {"", " < 3 ? 1 : 2"}, {"~", ""}, {"[", "]"}};
  const auto [before, after] = pick(around, engine);
  std::string& token = text[find(text, engine, [](const std::string& t) { return is_word(t) || is_number(t); })];
  const std::size_t times = below(engine, 6) == 0 ? below(engine, 400) : 1 + below(engine, 3);
  std::string left, right;
  for (std::size_t k = 0; k < times; ++k) left += before, right += after;
  token = left + token + right;
}

void change(Text& text, Engine& engine) {
  if (text.empty()) text.emplace_back("function (A[N]) -> (O) { O[i: N] = +(A[i]); }");
  switch (below(engine, 12)) {
    case 0: case 1: change_number(text, engine); break;
    case 2: case 3: exchange(text, engine); break;
    case 4: case 5: drop_or_repeat(text, engine); break;
    case 6: nest(text, engine); break;
    case 7: text.insert(at(text, below(engine, text.size() + 1)), std::string(pick(vocabulary, engine))); break;
    case 8:
      text[find(text, engine, [](const std::string& t) { return !is_space(t); })] = pick(vocabulary, engine);
      break;
    case 9: text[find(text, engine, is_word)] = pick(vocabulary, engine); break;
    case 10: text[find(text, engine, is_word)] = text[find(text, engine, is_word)]; break;
    default:
      text[find(text, engine, [](const std::string& t) {
        return t.size() == 1 && std::ispunct(static_cast<unsigned char>(t[0]));
      })] = pick(vocabulary, engine);
      break;
  }
}

}  // namespace

std::vector<std::string_view> tokens(std::string_view text) {
  const auto kind = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '\'' ? 1
        : std::isspace(static_cast<unsigned char>(c))                           ? 2
                                                                                : 0;
  };
  std::vector<std::string_view> result;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    if (text[begin] == '/' && end < text.size() && text[end] == '/')
      end = std::min(text.find('\n', begin), text.size());
    else while (end < text.size() && kind(text[begin]) != 0 && kind(text[end]) == kind(text[begin])) ++end;
    result.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return result;
}

std::string mutate(std::string_view text, Engine& engine) {
  Text parts = split(text);
  for (std::size_t k = 1 + below(engine, below(engine, 4) == 0 ? 6 : 2); k > 0; --k) change(parts, engine);
  return join(parts);
}

std::string splice(std::string_view first, std::string_view second, Engine& engine) {
  Text a = split(first), b = split(second);
  if (a.empty() || b.empty()) return join(a) + join(b);
  if (below(engine, 8) == 0) return join(a) + "\n" + join(b);
  auto [from, to] = statement(b, below(engine, b.size()));
  if (below(engine, 3) == 0) {
    from = below(engine, b.size());
    to = std::min(b.size(), from + 1 + below(engine, 20));
  }
  const auto [begin, end] = statement(a, below(engine, a.size()));
  if (below(engine, 2) == 0) a.erase(at(a, begin), at(a, end));
  a.insert(at(a, begin), b.begin() + static_cast<std::ptrdiff_t>(from), b.begin() + static_cast<std::ptrdiff_t>(to));
  return join(a);
}

}  // namespace fuzz
