#include "lang/repair.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "lang/builtin.h"
#include "lang/heading.h"
#include "lang/idiom.h"
#include "lang/op.h"
#include "lang/tokens.h"
#include "lang/type.h"

namespace tilec::lang {
namespace {

using Sizes = std::vector<std::string>;

constexpr std::string_view methods[] = {"dot", "transpose", "roll", "flip", "reshape"};
constexpr std::string_view words_between[] = {
    "if", "else", "and", "or", "not", "for", "in", "where", "return", "default", "lambda"};
constexpr std::string_view modules[] = {
    "np", "numpy", "torch", "tf", "jnp", "math", "F", "nn", "cp", "jax", "K", "keras", "tile", "Base", "te", "topi"};

template <class List>
bool among(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}
bool is_index_name(std::string_view word) { return word[0] >= 'a' && word[0] <= 'z'; }
bool is_scalar_function(std::string_view name) { return function_named(name).has_value() || name == "clamp"; }

// How a reduction is called elsewhere, its mark, and the name of the tensor that receives it.
struct Reduction { std::string_view names, mark, result; };
constexpr Reduction reductions[] = {{" sum reduce_sum nansum ", "+", "Sum"},
    {" prod product reduce_prod ", "*", "Product"}, {" max amax reduce_max nanmax ", ">", "Largest"},
    {" min amin reduce_min nanmin ", "<", "Smallest"}, {" mean average reduce_mean ", "+", "Mean"}};
const Reduction* reduction_named(std::string_view name) {
  for (const Reduction& each : reductions)
    if (each.names.find(fmt::format(" {} ", name)) != std::string_view::npos) return &each;
  return nullptr;
}
const Reduction* reduction_marked(std::string_view mark) {
  for (const Reduction& each : reductions)
    if (each.mark == mark) return &each;
  return nullptr;
}

// A type of Tile, or what a type of another language is called here.
std::optional<std::string> type_called(std::string_view name) {
  if (dtype_named(name)) return std::string(name);
  const auto hint = hint_for(Idiom::Kind::Type, name);   // write `f32`
  if (!hint || !hint->starts_with("write `")) return std::nullopt;
  return hint->substr(7, hint->size() - 8);
}

// Bracket by bracket in a list of tokens.
std::size_t closing(const Tokens& t, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < t.size(); ++i) {
    if (is_one_of(t[i].text, "([")) ++depth;
    if (is_one_of(t[i].text, ")]") && --depth == 0) return i;
  }
  return t.size();
}

// The sizes of inputs and of what statements have assigned with sizes.
std::map<std::string, Sizes> shapes_in(std::string_view text) {
  std::map<std::string, Sizes> shapes;
  const Tokens t = tokens_of(text);
  std::size_t heading = 0;
  while (heading < t.size() && t[heading].text != "{") ++heading;
  for (std::size_t i = 0; i + 1 < t.size(); ++i) {
    if (!is_word(t[i].text) || t[i + 1].text != "[") continue;
    const std::size_t end = closing(t, i + 1);
    if (end == t.size()) continue;
    std::size_t from = i + 2;
    const bool statement = i > heading;
    if (statement && !(t[i].starts || (i > 0 && t[i - 1].starts && is_word(t[i - 1].text)))) continue;
    if (statement) {
      while (from < end && t[from].text != ":") ++from;
      ++from;
    }
    Sizes sizes;
    int depth = 0;
    for (std::size_t k = from; k < end;) {
      std::size_t stop = k;
      for (; stop < end && (depth > 0 || t[stop].text != ","); ++stop)
        depth += is_one_of(t[stop].text, "([") - is_one_of(t[stop].text, ")]");
      sizes.emplace_back(text.substr(t[k].begin, t[stop - 1].end() - t[k].begin));
      k = stop + 1;
    }
    shapes.emplace(t[i].text, std::move(sizes));
  }
  return shapes;
}

// Past the end is a token that nothing looks for: half a statement has fewer than its beginning promises.
struct Reachable : Tokens {
  Reachable& operator=(Tokens tokens) {
    Tokens::operator=(std::move(tokens));
    return *this;
  }
  const Token& operator[](std::size_t i) const {
    static const Token none{" "};
    return i < size() ? Tokens::operator[](i) : none;
  }
};

class Repair {
 public:
  Repair(std::string_view statement, std::string_view before, std::string_view function)
      : text_(statement), shapes_(shapes_in(before)) {
    for (const Token& token : tokens_of(function)) words_.emplace(token.text);
    const Tokens t = tokens_of(function);                // `-> (Y)`: what a `return` means
    for (std::size_t i = 0; i + 3 < t.size() && t[i].text != "{"; ++i)
      if (t[i].text == "-" && t[i + 1].text == ">" && t[i + 2].text == "(" && is_word(t[i + 3].text))
        result_ = t[i + 3].text;
    read();
  }

  std::optional<Repaired> run() {
    if (!balanced()) return std::nullopt;
    bool changed = false;
    for (int steps = 0; steps < 60 && text_.size() < 4000; ++steps) {
      const bool more = commas() || tuples() || casts() || calls_of_tensors() || additions() || returns() ||
          keywords() || marks() || numbers() || powers() || negations() || choices() || conditions() || prefixes() ||
          einsums() || sums_over_an_index() || pairs() || members() || movements() || reshapes() ||
          whole_reductions() || products() || brackets() || slices() || wraps() || remainders() || reduction_inside() ||
          gathers() || comparison_of_constraint() || constraint_of_elements() || running() || positions() || target();
      if (!more) break;
      changed = true;
    }
    if (!changed) return std::nullopt;
    before_.push_back(text_ + ";");
    return Repaired{fmt::format("{}", fmt::join(before_, " ")), note_};
  }

 private:
  std::string text_, result_, note_;
  std::map<std::string, Sizes> shapes_;
  std::set<std::string, std::less<>> words_;
  std::vector<std::string> before_;                    // statements in front of it
  Reachable t_;
  std::size_t equals_ = 0;                             // the `=` of the assignment; t_.size(): none

  // ---- the text and its tokens ----

  void read() {
    t_ = tokens_of(text_);
    int depth = 0;
    for (equals_ = 0; equals_ < t_.size(); ++equals_) {
      depth += is_one_of(t_[equals_].text, "([") - is_one_of(t_[equals_].text, ")]");
      if (depth == 0 && t_[equals_].text == "=") break;
    }
  }

  // Does every bracket close what is open? Rewrites rely on it, and keep it so.
  bool balanced() const {
    std::string open;
    for (const Token& token : t_) {
      if (is_one_of(token.text, "([")) open += token.text[0] == '(' ? ')' : ']';
      if (!is_one_of(token.text, ")]")) continue;
      if (open.empty() || open.back() != token.text[0]) return false;
      open.pop_back();
    }
    return open.empty();
  }

  bool is(std::size_t i, std::string_view text) const { return i < t_.size() && t_[i].text == text; }
  bool word(std::size_t i) const { return i < t_.size() && is_word(t_[i].text); }
  std::string slice(std::size_t first, std::size_t last) const {  // tokens first … last - 1
    last = std::min(last, t_.size());
    return first >= last ? "" : text_.substr(t_[first].begin, t_[last - 1].end() - t_[first].begin);
  }

  bool replace(std::size_t first, std::size_t last, const std::string& with) {
    const std::size_t from = t_[first].begin, to = first < last ? t_[last - 1].end() : from;
    text_ = text_.substr(0, from) + with + text_.substr(to);
    read();
    return true;
  }

  std::size_t opening(std::size_t close) const {
    int depth = 0;
    for (std::size_t i = close + 1; i-- > 0;) {
      if (is_one_of(t_[i].text, ")]")) ++depth;
      if (is_one_of(t_[i].text, "([") && --depth == 0) return i;
    }
    return 0;
  }

  bool ends_operand(std::size_t i) const {
    return is_one_of(t_[i].text, ")]") || is_number(t_[i].text) ||
        (is_word(t_[i].text) && !among(words_between, t_[i].text));
  }

  // The first token of the operand that ends at `last`: `A[i]`, `exp(X)`, `(A + B)`, `2`.
  std::size_t operand_first(std::size_t last) const {
    std::size_t i = last;
    while (is_one_of(t_[i].text, ")]")) {
      i = opening(i);
      if (i == 0 ||
          !(is_one_of(t_[i - 1].text, "])") || (is_word(t_[i - 1].text) && !among(words_between, t_[i - 1].text))))
        return i;
      --i;
    }
    return i;
  }

  // Behind the operand that begins at `first`.
  std::size_t operand_end(std::size_t first) const {
    std::size_t i = first;
    while (i < t_.size() && is_one_of(t_[i].text, "-+")) ++i;
    if (i >= t_.size()) return i;
    if (is(i, "(")) i = std::min(closing(t_, i) + 1, t_.size());
    else ++i;
    while (i < t_.size() && is_one_of(t_[i].text, "([") && ends_operand(i - 1))
      i = std::min(closing(t_, i) + 1, t_.size());
    return i;
  }

  // The brackets around token i: the innermost open one; t_.size() where there is none.
  std::size_t enclosing(std::size_t i) const {
    int depth = 0;
    for (std::size_t k = i; k-- > 0;) {
      if (is_one_of(t_[k].text, ")]")) ++depth;
      if (is_one_of(t_[k].text, "([") && --depth < 0) return k;
    }
    return t_.size();
  }

  // Between the commas, brackets or the `=` around token i.
  std::pair<std::size_t, std::size_t> segment(std::size_t i) const {
    std::size_t first = i, last = i;
    for (int depth = 0; first > 0; --first) {
      const std::string_view before = t_[first - 1].text;
      if (is_one_of(before, ")]")) ++depth;
      if (is_one_of(before, "([") && --depth < 0) break;
      if (depth == 0 && (before == "," || first - 1 == equals_)) break;
    }
    for (int depth = 0; last < t_.size(); ++last) {
      if (is_one_of(t_[last].text, "([")) ++depth;
      if (is_one_of(t_[last].text, ")]") && --depth < 0) break;
      if (depth == 0 && t_[last].text == ",") break;
    }
    return {first, last};
  }

  std::vector<std::pair<std::size_t, std::size_t>> list(std::size_t open) const {  // of tokens, between the commas
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    const std::size_t close = closing(t_, open);
    for (std::size_t k = open + 1; k < close;) {
      const auto part = segment(k);
      parts.push_back({k, part.second});
      k = part.second + 1;
    }
    return parts;
  }

  std::string fresh(std::string_view base, bool index = false) {
    static constexpr std::string_view letters[] = {"i", "j", "k", "l", "m", "n", "p", "q", "r", "s"};
    if (index && words_.emplace(base).second) return std::string(base);
    if (index)
      for (const std::string_view letter : letters)
        if (words_.emplace(letter).second) return std::string(letter);
    std::string name(base);
    for (int number = 2; !words_.emplace(name).second; ++number) name = fmt::format("{}{}", base, number);
    return name;
  }

  const Sizes* shape(std::string_view name) const {
    const auto at = shapes_.find(std::string(name));
    return at == shapes_.end() ? nullptr : &at->second;
  }

  void put_before(
      const std::string& name, const std::vector<std::string>& indices, const Sizes& sizes, const std::string& value) {
    before_.push_back(fmt::format("{}[{}{}{}] = {};", name, fmt::join(indices, ", "), indices.empty() ? "" : ": ",
        fmt::join(sizes, ", "), value));
    shapes_[name] = sizes;
  }

  // ---- the left side ----

  bool has_element() const {
    return equals_ < t_.size() && equals_ > 0 && is(equals_ - 1, "]") && element() > 0 && word(element() - 1);
  }
  std::size_t element() const { return opening(equals_ - 1); }

  // Indices of the left side that stand alone, with their sizes where these are written.
  std::vector<std::pair<std::string, std::string>> kept() const {
    std::vector<std::pair<std::string, std::string>> result;
    if (!has_element()) return result;
    std::vector<std::string> left, right;
    bool sizes = false;
    for (std::size_t k = element() + 1; k < equals_ - 1;) {
      std::size_t stop = k;
      for (int depth = 0; stop < equals_ - 1 && (depth > 0 || (!is(stop, ",") && !is(stop, ":"))); ++stop)
        depth += is_one_of(t_[stop].text, "([") - is_one_of(t_[stop].text, ")]");
      (sizes ? right : left).push_back(slice(k, stop));
      sizes |= is(stop, ":");
      k = stop + 1;
    }
    for (std::size_t k = 0; k < left.size(); ++k)
      if (!left[k].empty() && is_index_name(left[k]))
        result.emplace_back(left[k], k < right.size() ? right[k] : size_of_index(left[k]).value_or(""));
    return result;
  }

  // The size of a dimension that is read at exactly this index.
  std::optional<std::string> size_of_index(std::string_view index) const {
    for (std::size_t i = 0; i + 1 < t_.size(); ++i) {
      const Sizes* sizes = word(i) && is(i + 1, "[") && i > equals_ ? shape(t_[i].text) : nullptr;
      if (!sizes) continue;
      const auto parts = list(i + 1);
      for (std::size_t d = 0; d < parts.size() && d < sizes->size(); ++d)
        if (parts[d].second == parts[d].first + 1 && t_[parts[d].first].text == index) return (*sizes)[d];
    }
    return std::nullopt;
  }

  // ---- rewrites: one place each ----

  // `+(X[i],)`, `exp(X,)`, `Y[i,: N,]`: a comma behind the last.
  bool commas() {
    for (std::size_t i = 0; i + 1 < t_.size(); ++i)
      if (is(i, ",") && i > 0 && !is_one_of(t_[i - 1].text, "([,") &&
          (is_one_of(t_[i + 1].text, ")]") || (is(i + 1, ":") && i < equals_)))
        return replace(i, i + 1, "");
    return false;
  }

  // `P, Q = g(X)`
  bool tuples() {
    std::size_t end = 0;
    while (word(end) && is(end + 1, ",")) end += 2;
    if (end == 0 || !word(end) || !is(end + 1, "=") || is(end + 2, "=")) return false;
    return replace(0, end + 1, fmt::format("({})", slice(0, end + 1)));
  }

  // `float32`, `np.float32`, `torch.float`: the type that tokens [first, last) name.
  std::optional<std::string> type_in(std::size_t first, std::size_t last) const {
    const bool of_module = last == first + 3 && among(modules, t_[first].text) && is(first + 1, ".");
    return (of_module || last == first + 1) && word(last - 1) && !shape(t_[last - 1].text)
        ? type_called(t_[last - 1].text)
        : std::nullopt;
  }

  // `X.astype(np.float32)`, `X.to(torch.float64)`, `X.float()`, `static_cast<float>(X)`, `tf.cast(X, tf.float32)`,
  // `np.float32(X)`, `X as f32`
  bool calls_that_cast() {
    for (std::size_t i = equals_ + 2; i + 1 < t_.size(); ++i) {
      if (is(i, "as") && ends_operand(i - 1) && type_in(i + 1, i + 2)) {
        const std::size_t first = operand_first(i - 1);
        return replace(first, i + 2, fmt::format("{}({})", *type_in(i + 1, i + 2), slice(first, i)));
      }
      const std::size_t open = i + 2, close = is(open, "(") ? closing(t_, open) : t_.size();
      if (!is(i, ".") || close == t_.size() || !ends_operand(i - 1)) continue;
      const bool converts = is(i + 1, "astype") || is(i + 1, "to") || is(i + 1, "type");
      const auto type = converts ? type_in(open + 1, close) : close == open + 1 ? type_in(i + 1, i + 2) : std::nullopt;
      const std::size_t first = operand_first(i - 1);
      if (type)
        return replace(
            first, close + 1, fmt::format("{}({})", *type, is(first, "(") ? slice(first + 1, i - 1) : slice(first, i)));
    }
    for (std::size_t i = equals_ + 1; i + 3 < t_.size(); ++i) {
      if (is(i + 1, "<") && is(i + 3, ">") && is(i + 4, "(") && (is(i, "static_cast") || is(i, "cast")) &&
          type_in(i + 2, i + 3))
        return replace(i, i + 4, *type_in(i + 2, i + 3));
      const auto parts =
          is(i, "cast") && is(i + 1, "(") ? list(i + 1) : std::vector<std::pair<std::size_t, std::size_t>>();
      if (parts.size() == 2 && type_in(parts[1].first, parts[1].second))
        return replace(i, closing(t_, i + 1) + 1,
            fmt::format("{}({})", *type_in(parts[1].first, parts[1].second), slice(parts[0].first, parts[0].second)));
      if (is(i + 1, "(") && word(i) && !dtype_named(t_[i].text) && !is(i - 1, ".") && type_in(i, i + 1))
        return replace(i, i + 1, *type_in(i, i + 1));
      if (i + 3 < t_.size() && is(i + 3, "(") && type_in(i, i + 3)) return replace(i, i + 3, *type_in(i, i + 3));
    }
    return false;
  }

  // `(f32) X`, `(int)(A + B) * 2`
  bool casts() {
    if (calls_that_cast()) return true;
    for (std::size_t i = equals_ + 1; i + 3 < t_.size(); ++i) {
      if (!is(i, "(") || !word(i + 1) || !is(i + 2, ")") || (i > 0 && ends_operand(i - 1)) || shape(t_[i + 1].text))
        continue;
      const std::optional<std::string> type = type_called(t_[i + 1].text);
      const bool operand =
          word(i + 3) || is_number(t_[i + 3].text) || is(i + 3, "(") || (is(i + 3, "-") && dtype_named(t_[i + 1].text));
      const std::size_t end = operand_end(i + 3);
      if (!type || !operand || end > t_.size()) continue;
      const bool enclosed = is(i + 3, "(") && closing(t_, i + 3) + 1 == end;
      return replace(i, end, fmt::format("{}({})", *type, enclosed ? slice(i + 4, end - 1) : slice(i + 3, end)));
    }
    return false;
  }

  // `V = topk(A, 3)`, `V = top_k<3>(A)`: the largest, and where they are.
  bool pairs() {
    for (std::size_t i = equals_ + 1; i + 1 < t_.size(); ++i) {
      if (is(i, "topk") && is(i + 1, "(")) return replace(i, i + 1, "top_k");
      if (!is(i, "top_k")) continue;
      const auto parts = is(i + 1, "(") ? list(i + 1) : std::vector<std::pair<std::size_t, std::size_t>>();
      if (parts.size() == 2) {
        const auto [from, to] = parts[1];
        const std::string count = is(from + 1, "=") ? slice(from + 2, to) : slice(from, to);
        return replace(
            i + 1, closing(t_, i + 1) + 1, fmt::format("<{}>({})", count, slice(parts[0].first, parts[0].second)));
      }
      if (i == equals_ + 1 && equals_ == 1 && word(0) && closing(t_, i) + 1 >= t_.size())
        return replace(0, 1, fmt::format("({}, {})", t_[0].text, fresh("Index")));
    }
    return false;
  }

  // `O(x, y) = I(x - 1, y) + I(x, y)`: a tensor is no function.
  bool calls_of_tensors() {
    const auto bracket = [&](std::size_t open) {
      const std::size_t close = closing(t_, open);
      if (close == t_.size()) return false;
      text_[t_[open].begin] = '[';
      text_[t_[close].begin] = ']';
      read();
      return true;
    };
    const std::size_t mark = equals_ > 0 && is_one_of(t_[equals_ - 1].text, "+*") ? equals_ - 1 : equals_;
    if (word(0) && is(1, "(") && equals_ < t_.size() && closing(t_, 1) + 1 == mark) return bracket(1);
    for (std::size_t i = equals_ + 1; i + 1 < t_.size(); ++i)
      if (word(i) && is(i + 1, "(") && shape(t_[i].text)) return bracket(i + 1);
    return false;
  }

  // `O[i] += A[i, k]`
  bool additions() {
    if (equals_ < 3 || equals_ + 1 >= t_.size() || !is_one_of(t_[equals_ - 1].text, "+*") || !is(equals_ - 2, "]"))
      return false;
    // `+=!` begins at 0
    const std::size_t first = equals_ + (is(equals_ + 1, "!") ? 2 : 1),
                      last = first < t_.size() ? segment(first).second : first;
    if (first >= last) return false;
    return replace(equals_ - 1, last, fmt::format("= {}({})", t_[equals_ - 1].text, slice(first, last)));
  }

  // `einsum("ik,kj->ij", A, B)`: what the letters say.
  bool einsums() {
    for (std::size_t i = equals_ + 1; i + 2 < t_.size(); ++i) {
      if (!is(i, "einsum") || !is(i + 1, "(") || closing(t_, i + 1) == t_.size() || is(i - 1, ".")) continue;
      const auto parts = list(i + 1);
      std::string letters;
      for (const char c : t_[i + 2].text)
        if (c != ' ' && c != '"' && c != '\'') letters += c;
      const std::size_t arrow = std::min(letters.find("->"), letters.size());
      std::map<char, std::string> sizes;
      std::string result = arrow < letters.size() ? letters.substr(arrow + 2) : "", body;
      std::size_t at = 0;
      for (std::size_t k = 1; k < parts.size(); ++k) {
        const std::string own = letters.substr(at, std::min(letters.find(',', at), arrow) - at);
        at += own.size() + 1;
        const Sizes* of = parts[k].second == parts[k].first + 1 ? shape(t_[parts[k].first].text) : nullptr;
        if (!of || of->size() != own.size() || at > arrow + 1 ||
            !std::all_of(own.begin(), own.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
          return false;
        for (std::size_t d = 0; d < own.size(); ++d) sizes.emplace(own[d], (*of)[d]);
        body += fmt::format("{}{}[{}]", k > 1 ? " * " : "", t_[parts[k].first].text, fmt::join(own, ", "));
      }
      if (at != arrow + 1) return false;
      if (arrow == letters.size())
        for (const auto& [letter, size] : sizes)
          if (std::count(letters.begin(), letters.end(), letter) == 1) result += letter;
      std::vector<std::string> indices;
      Sizes kept;
      for (const char c : result) {
        if (!sizes.contains(c) || std::count(result.begin(), result.end(), c) > 1) return false;
        indices.emplace_back(1, c);
        kept.push_back(sizes.at(c));
      }
      return compute(i, closing(t_, i + 1) + 1, "Product", indices, kept,
          fmt::format("{}({})", result.size() == sizes.size() ? "=" : "+", body));
    }
    return false;
  }

  // `sum(k, A[i, k])`, `sum(A[i, k], axis=k)`
  bool sums_over_an_index() {
    for (std::size_t i = equals_ + 1; i + 2 < t_.size(); ++i) {
      const auto parts = word(i) && is(i + 1, "(") && reduction_named(t_[i].text)
          ? list(i + 1)
          : std::vector<std::pair<std::size_t, std::size_t>>();
      if (parts.size() != 2 || closing(t_, i + 1) == t_.size()) continue;
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
        const auto [from, to] = parts[k];
        const auto [first, last] = parts[1 - k];
        const std::size_t index = is(from, "axis") && is(from + 1, "=") ? from + 2 : from;
        if (index + 1 == to && word(index) && is_index_name(t_[index].text) &&
            indices_in(first, last).contains(std::string(t_[index].text)))
          return replace(i + 2, closing(t_, i + 1), slice(first, last));
      }
    }
    return false;
  }

  // `argmax(A[i, j])` for each `i`: of a whole tensor, along an axis.
  bool positions() {
    const std::size_t i = is(equals_ + 1, "=") && is(equals_ + 2, "(") ? equals_ + 3 : equals_ + 1;
    if (!has_element() || !(is(i, "argmax") || is(i, "argmin")) || !is(i + 1, "(")) return false;
    const auto left = kept();
    std::vector<std::pair<std::size_t, std::size_t>> reads =
        word(i + 2) && is(i + 3, "[") ? list(i + 3) : std::vector<std::pair<std::size_t, std::size_t>>();
    if (reads.empty() || closing(t_, i + 3) + 1 != closing(t_, i + 1) ||
        closing(t_, i + 1) + (i == equals_ + 3 ? 2 : 1) != t_.size())
      return false;
    std::vector<std::string> others;
    std::size_t axis = reads.size();
    for (std::size_t d = 0; d < reads.size(); ++d) {
      const std::string index = slice(reads[d].first, reads[d].second);
      if (std::any_of(left.begin(), left.end(), [&](const auto& each) { return each.first == index; }))
        others.push_back(index);
      else if (axis == reads.size()) axis = d;
      else return false;
    }
    const bool same = axis < reads.size() && others.size() == left.size() &&
        std::equal(
            left.begin(), left.end(), others.begin(),
            [](const auto& each, const std::string& index) { return each.first == index; });
    const std::string of = reads.size() == 1 ? "" : fmt::format(", {}", axis);
    return same &&
        replace(0, t_.size(), fmt::format("{} = {}({}{})", slice(0, element()), t_[i].text, t_[i + 2].text, of));
  }

  bool returns() {
    if (!is(0, "return") || result_.empty()) return false;
    return replace(0, 1, result_ + " =");
  }

  // Behind an aggregation and its comma, in no brackets.
  bool is_constraint(std::size_t i) const {
    const std::size_t first = equals_ + 1;
    if (first >= t_.size() || !is_one_of(t_[first].text, "+*<>=") || !is(first + 1, "(") || enclosing(i) != t_.size())
      return false;
    return i > closing(t_, first + 1) + 1 && is(closing(t_, first + 1) + 1, ",");
  }

  bool marks() {
    static constexpr std::pair<std::string_view, std::string_view> spelled[] = {{"×", "*"}, {"·", "*"}, {"−", "-"},
        {"÷", "/"}, {"≤", "<="}, {"≥", ">="}, {"≠", "!="}, {"∞", "inf"}, {"π", "3.141592653589793"}};
    for (std::size_t i = 0; i < t_.size(); ++i) {
      for (const auto& [from, to] : spelled)
        if (t_[i].text == from) return replace(i, i + 1, std::string(to));
      const bool twice = i + 1 < t_.size() && t_[i + 1].touches && t_[i].text == t_[i + 1].text;
      if (is_constraint(i) && ((twice && is(i, "&")) || is(i, "and") || is(i, "&")))
        return replace(i - 1, i + (twice ? 2 : 1), fmt::format("{},", t_[i - 1].text));
      if (twice && is_one_of(t_[i].text, "&|")) return joined(i, i + 2, std::string(t_[i].text));
      if (i > 0 && is(i, "and") && ends_operand(i - 1)) return joined(i, i + 1, "&");
      if (i > 0 && is(i, "or") && ends_operand(i - 1)) return joined(i, i + 1, "|");
      if (is(i, ":") && i + 1 < t_.size() && is(i + 1, "=") && t_[i + 1].touches) return replace(i, i + 2, "=");
      if (is(i, ".") && i > 0 && ends_operand(i - 1) && i + 1 < t_.size() && is_one_of(t_[i + 1].text, "*/^+-") &&
          t_[i + 1].touches)
        return replace(i, i + 2, is(i + 1, "^") ? "**" : std::string(t_[i + 1].text));
    }
    return false;
  }

  // Conditions with `&` or `|` between them; a tensor that stands there alone is true where it is not 0.
  bool joined(std::size_t i, std::size_t end, const std::string& mark) {
    const auto ends = [&](std::size_t k) {
      return k >= t_.size() || is_one_of(t_[k].text, ")&|?,") || is(k, "and") || is(k, "or");
    };
    const auto begins = [&](std::size_t k) {
      return k == equals_ || is_one_of(t_[k].text, "(&|?:,") || is(k, "and") || is(k, "or");
    };
    const auto condition = [&](std::size_t from, std::size_t to, bool alone) {
      return slice(from, to) + (alone && shape(t_[from].text) ? " != 0" : "");
    };
    if (i == 0) return false;
    const std::size_t first = operand_first(i - 1), last = operand_end(end);
    return replace(first, last,
        fmt::format(
            "{} {} {}", condition(first, i, first > 0 && begins(first - 1)), mark, condition(end, last, ends(last))));
  }

  bool numbers() {
    for (std::size_t i = 1; i < t_.size(); ++i)
      if (is_number(t_[i - 1].text) && t_[i].touches && word(i)) {
        if (is_one_of(t_[i].text, "fFlLuUd")) return replace(i, i + 1, "");
        if (t_[i].text[0] == '_' || t_[i].text == "j" ||
            (t_[i - 1].text == "0" && is_one_of(t_[i].text.substr(0, 1), "xbo")))
          return false;
        return replace(i, i + 1, " * " + std::string(t_[i].text));
      }
    return false;
  }

  bool powers() {
    for (std::size_t i = t_.size(); i-- > 1;) {
      if (!is(i, "*") || !is(i - 1, "*") || !t_[i].touches || i < 2 || !ends_operand(i - 2)) continue;
      const std::size_t first = operand_first(i - 2), end = operand_end(i + 1);
      const auto bare = [&](std::size_t from, std::size_t to) {
        return is(from, "(") && closing(t_, from) + 1 == to ? slice(from + 1, to - 1) : slice(from, to);
      };
      return replace(first, end, fmt::format("pow({}, {})", bare(first, i - 1), bare(i + 1, end)));
    }
    return false;
  }

  bool negations() {
    for (std::size_t i = equals_ + 1; i < t_.size(); ++i) {
      const bool mark = is(i, "!") && !(is(i + 1, "=") && t_[i + 1].touches);
      if (!mark && !is(i, "not") && !(is(i, "~") && is(i + 1, "("))) continue;
      if (is(i, "~")) continue;
      std::size_t end = mark || is(i + 1, "(") ? operand_end(i + 1) : segment(i).second;
      for (std::size_t k = i + 1; k < end && !mark; ++k)
        if (enclosing(k) == enclosing(i) && (is(k, "&") || is(k, "|") || is(k, "?") || is(k, "if") || is(k, "else")))
          end = k;
      const std::string operand = slice(i + 1, end);
      const bool simple = end == operand_end(i + 1);
      return replace(i, end, simple ? fmt::format("({} == 0)", operand) : fmt::format("(({}) == 0)", operand));
    }
    return false;
  }

  bool choices() {
    for (std::size_t i = equals_ + 1; i < t_.size(); ++i) {
      if (is(i, "where") && is(i + 1, "(")) {
        const auto parts = list(i + 1);
        if (parts.size() != 3 || (i > 0 && is(i - 1, "."))) continue;
        return replace(i, closing(t_, i + 1) + 1,
            fmt::format("({} ? {} : {})", slice(parts[0].first, parts[0].second),
                slice(parts[1].first, parts[1].second), slice(parts[2].first, parts[2].second)));
      }
      if (!is(i, "if")) continue;
      const auto [first, last] = segment(i);
      std::size_t otherwise = i;
      while (otherwise < last && !(is(otherwise, "else") && enclosing(otherwise) == enclosing(i))) ++otherwise;
      if (otherwise >= last || first >= i) continue;
      if (first == equals_ + 1 && is_one_of(t_[first].text, "+*<>=") && is(first + 1, "(") &&
          closing(t_, first + 1) + 1 == i) {
        if (!is(first, "=") || is(otherwise + 1, "0") || is(otherwise + 1, "0.0")) continue;  // a constraint
        return replace(first + 2, last,
            fmt::format("{} ? {} : {})", slice(i + 1, otherwise), slice(first + 2, i - 1), slice(otherwise + 1, last)));
      }
      return replace(first, last,
          fmt::format("{} ? {} : {}", slice(i + 1, otherwise), slice(first, i), slice(otherwise + 1, last)));
    }
    return false;
  }

  // `+(X[k] if k <= i)`, `+(X[k]) if k <= i`, `… for k in range(i)`
  bool conditions() {
    for (std::size_t i = equals_ + 1; i < t_.size(); ++i) {
      if ((!is(i, "if") && !is(i, "where") && !is(i, "for")) || (is(i, "where") && is(i + 1, "("))) continue;
      if (i == 0 || !ends_operand(i - 1)) continue;
      const std::size_t last = segment(i).second;
      std::size_t end = i;                               // of the condition: what no point reaches is 0
      while (end < last && !is(end, "else")) ++end;
      if (end < last && (end + 2 != last || (!is(end + 1, "0") && !is(end + 1, "0.0")))) return false;
      const auto constraint = ranged(i, end);
      if (!constraint) return false;
      const std::size_t open = enclosing(i), close = open == t_.size() ? t_.size() : closing(t_, open);
      const std::string rest = slice(last, close), behind = close < t_.size() ? ")" + slice(close + 1, t_.size()) : "";
      if (open != t_.size() && enclosing(open) != t_.size()) return false;  // of an inner expression
      text_ = fmt::format("{}{}{}{}{}", slice(0, i), rest, behind, constraint->empty() ? "" : ", ", *constraint);
      read();
      return true;
    }
    return false;
  }

  std::optional<std::string> ranged(std::size_t i, std::size_t last) const {
    if (!is(i, "for")) return slice(i + 1, last);
    if (!word(i + 1) || !is(i + 2, "in") || !is(i + 3, "range") || !is(i + 4, "(")) return std::nullopt;
    const auto parts = list(i + 4);
    const std::string index(t_[i + 1].text);
    if (parts.size() == 1) {
      const std::string bound = slice(parts[0].first, parts[0].second);
      const auto size = size_of_index(index);
      return size && *size == bound ? "" : fmt::format("{} < {}", index, bound);
    }
    return parts.size() == 2 ? std::optional(fmt::format("{} <= {} < {}", slice(parts[0].first, parts[0].second), index,
                                   slice(parts[1].first, parts[1].second)))
                             : std::nullopt;
  }

  // `np.exp(X)`, `X.exp()`, `maximum(X, 0)`
  bool prefixes() {
    for (std::size_t i = 0; i + 2 < t_.size(); ++i) {
      if (word(i) && is(i + 1, ".") && word(i + 2) && among(modules, t_[i].text) && !shape(t_[i].text)) {
        if (const auto parts = is(i + 3, "(") ? list(i + 3) : std::vector<std::pair<std::size_t, std::size_t>>();
            parts.size() == 2 && (is(i + 2, "mod") || is(i + 2, "remainder")))
          note_sign(slice(parts[0].first, parts[0].second), slice(parts[1].first, parts[1].second));
        return replace(i, i + 2, "");
      }
      const bool is_flat = is(i + 2, "flatten") || is(i + 2, "ravel");
      if (word(i) && is(i + 1, ".") && is(i + 3, "(") && (is(i + 2, "view") || (is_flat && is(i + 4, ")"))))
        return replace(i + 2, is_flat ? i + 4 : i + 3, is_flat ? "reshape(-1" : "reshape");
      if (word(i) && is(i + 1, ".") && word(i + 2) && is(i + 3, "(") &&
          (is_scalar_function(t_[i + 2].text) || reduction_named(t_[i + 2].text) || among(methods, t_[i + 2].text))) {
        const std::size_t close = closing(t_, i + 3);
        const std::string rest = slice(i + 4, close);
        return close < t_.size() &&
            replace(
                i, close + 1, fmt::format("{}({}{}{})", t_[i + 2].text, t_[i].text, rest.empty() ? "" : ", ", rest));
      }
    }
    for (std::size_t i = 1; i + 2 < t_.size(); ++i) {      // `(A + B).sum()`
      if (!is(i, ".") || !is_one_of(t_[i - 1].text, ")]") || !word(i + 1) || !is(i + 2, "(") ||
          closing(t_, i + 2) == t_.size())
        continue;
      const std::size_t first = operand_first(i - 1), close = closing(t_, i + 2);
      const std::string rest = slice(i + 3, close),
                        operand = is(first, "(") ? slice(first + 1, i - 1) : slice(first, i);
      return replace(
          first, close + 1, fmt::format("{}({}{}{})", t_[i + 1].text, operand, rest.empty() ? "" : ", ", rest));
    }
    for (std::size_t i = 0; i + 1 < t_.size(); ++i) {
      if (!word(i) || !is(i + 1, "(") || shape(t_[i].text)) continue;
      for (const Alias& alias : aliases())
        if (alias.foreign == t_[i].text && is_scalar_function(alias.name) &&
            !(reduction_named(alias.foreign) && list(i + 1).size() == 1))
          return replace(i, i + 1, std::string(alias.name));
    }
    return false;
  }

  bool members() {
    for (std::size_t i = 0; i + 2 < t_.size(); ++i) {
      const Sizes* sizes = word(i) ? shape(t_[i].text) : nullptr;
      if (!sizes) continue;
      if (is(i + 1, ".") && is(i + 2, "shape") && is(i + 3, "[") && i + 5 < t_.size() && is_number(t_[i + 4].text) &&
          is(i + 5, "]")) {
        const std::size_t d = t_[i + 4].text[0] - std::size_t{'0'};
        if (t_[i + 4].text.size() == 1 && d < sizes->size()) return replace(i, i + 6, (*sizes)[d]);
      }
      const bool transposed = is(i + 1, ".") && (is(i + 2, "T") || is(i + 2, "mT"));
      if (transposed && sizes->size() == 2) return replace(i, i + 3, transpose(std::string(t_[i].text), *sizes));
      if (i > 1 && is(i - 1, "(") && is(i - 2, "transpose") && is(i + 1, ")") && sizes->size() == 2)
        return replace(i - 2, i + 2, transpose(std::string(t_[i].text), *sizes));
    }
    return false;
  }

  std::string transpose(const std::string& name, const Sizes& sizes) {
    const std::string result = fresh(name + "T"), i = fresh("i", true), j = fresh("j", true);
    put_before(result, {j, i}, {sizes[1], sizes[0]}, fmt::format("=({}[{}, {}])", name, i, j));
    return result;
  }

  // `A @ B`, `matmul(A, B)`, `dot(X, Z)` of tensors whose sizes the text has.
  bool products() {
    for (std::size_t i = 0; i + 1 < t_.size(); ++i) {
      std::size_t first = i, last, left, right;
      if (is(i, "@") && i > 0 && word(i - 1) && word(i + 1)) first = left = i - 1, right = i + 1, last = i + 2;
      else if (word(i) && (is(i, "dot") || is(i, "matmul") || is(i, "mm") || is(i, "inner")) && is(i + 1, "(") &&
          list(i + 1).size() == 2)
        left = i + 2, right = i + 4, last = i + 6;
      else continue;
      if (right >= t_.size() || !word(left) || !word(right)) continue;
      const Sizes *a = shape(t_[left].text), *b = shape(t_[right].text);
      if (!a || !b || a->empty() || b->empty() || a->size() > 2 || b->size() > 2) continue;
      const std::string A(t_[left].text), B(t_[right].text);
      std::vector<std::string> indices;
      Sizes sizes;
      if (a->size() == 2) indices.push_back(fresh("i", true)), sizes.push_back((*a)[0]);
      if (b->size() == 2) indices.push_back(fresh("j", true)), sizes.push_back((*b)[1]);
      const std::string k = fresh("k", true);
      const std::string reads_a = a->size() == 2 ? indices.front() + ", " + k : k,
                        reads_b = b->size() == 2 ? k + ", " + indices.back() : k;
      return compute(first, last, "Product", indices, sizes, fmt::format("+({}[{}] * {}[{}])", A, reads_a, B, reads_b));
    }
    return false;
  }

  // A value in front, or, where it is all of the right side, in place of the statement.
  bool compute(std::size_t first, std::size_t last, std::string_view name, const std::vector<std::string>& indices,
      const Sizes& sizes, const std::string& value) {
    if (!has_element() && first == equals_ + 1 && last == t_.size()) {
      const std::string target = slice(0, equals_);
      text_ = fmt::format("{}[{}{}{}] = {}", target, fmt::join(indices, ", "), indices.empty() ? "" : ": ",
          fmt::join(sizes, ", "), value);
      read();
      return true;
    }
    const std::string made = fresh(name);
    put_before(made, indices, sizes, value);
    return replace(first, last, made);
  }

  // `sum(X)`, `X.max(axis=1)`, `mean(X, 0, keepdims=True)` of a whole tensor.
  bool whole_reductions() {
    for (std::size_t i = equals_ + 1; i + 2 < t_.size(); ++i) {
      const Reduction* reduction = word(i) && is(i + 1, "(") ? reduction_named(t_[i].text) : nullptr;
      const Sizes* sizes = reduction && word(i + 2) ? shape(t_[i + 2].text) : nullptr;
      const auto parts = reduction ? list(i + 1) : std::vector<std::pair<std::size_t, std::size_t>>();
      if (parts.empty() || has_element()) continue;
      if (!sizes || parts[0].second != i + 3) {
        if (named_first(parts[0].first, parts[0].second, parts.size() > 1 && (is(i, "max") || is(i, "min"))))
          return true;
        continue;
      }
      std::optional<std::size_t> axis;
      bool keeps = false, known = true;
      const bool both = is(i, "max") || is(i, "min");    // `max(X, 0)` is the larger of two
      for (std::size_t p = 1; p < parts.size(); ++p) {
        std::size_t at = parts[p].first;
        const std::string_view name = t_[at].text;
        if (is(at + 1, "=")) at += 2;
        if (name == "keepdims" || name == "keepdim") keeps = is(at, "True") || is(at, "true") || is(at, "1");
        else if (const std::string text = slice(at, parts[p].second); text == "-1") axis = sizes->size() - 1;
        else if (text.size() == 1 && is_number(text) && (name == "axis" || name == "dim" || (name == text && !both)))
          axis = text[0] - std::size_t{'0'};
        else known = false;
      }
      if (!known || (axis && *axis >= sizes->size())) continue;
      std::vector<std::string> all, indices;
      Sizes left;
      std::string count;
      for (std::size_t d = 0; d < sizes->size(); ++d) {
        all.push_back(fresh("i", true));
        if (axis && d != *axis) indices.push_back(all.back()), left.push_back((*sizes)[d]);
        else if (keeps) indices.emplace_back("0"), left.emplace_back("1");
        if (!axis || d == *axis) count += " / " + (*sizes)[d];
      }
      const std::string read = fmt::format("{}[{}]", t_[i + 2].text, fmt::join(all, ", "));
      return compute(i, closing(t_, i + 1) + 1, reduction->result, indices, left,
          fmt::format("{}({}{})", reduction->mark, read, reduction->result == "Mean" ? count : ""));
    }
    return false;
  }

  // `sum(exp(X) * 2.0)`: what is reduced gets a name and the shape of its largest tensor.
  bool named_first(std::size_t from, std::size_t to, bool of_two) {
    const Sizes* largest = nullptr;
    for (std::size_t k = from; k < to; ++k) {
      const Sizes* sizes = word(k) ? shape(t_[k].text) : nullptr;
      if (sizes && (!largest || sizes->size() > largest->size())) largest = sizes;
      if (is_one_of(t_[k].text, "[:.@%!") || among(words_between, t_[k].text) ||
          (word(k) && is(k + 1, "(") && !is_scalar_function(t_[k].text)))
        return false;
    }
    if (!largest || of_two || to == from + 1) return false;
    const std::string name = fresh("T");
    shapes_[name] = *largest;
    before_.push_back(fmt::format("{} = {};", name, slice(from, to)));
    return replace(from, to, name);
  }

  bool brackets() {
    for (std::size_t i = 1; i + 1 < t_.size(); ++i)
      if (is(i, "]") && is(i + 1, "[") && word(opening(i) - 1)) return replace(i, i + 2, ", ");
    return false;
  }

  // `X[1:, 0]`, `X[::2]`, `X[..., 0]` of a tensor whose sizes the text has.
  bool slices() {
    for (std::size_t i = equals_ + 1; i + 1 < t_.size(); ++i) {
      const Sizes* sizes = word(i) && is(i + 1, "[") ? shape(t_[i].text) : nullptr;
      if (!sizes) continue;
      const std::size_t close = closing(t_, i + 1);
      if (close == t_.size()) continue;
      const auto parts = list(i + 1);
      const auto any = [&](std::string_view mark) {
        for (std::size_t k = i + 2; k < close; ++k)
          if (t_[k].text == mark) return true;
        return false;
      };
      const bool numbers = std::all_of(parts.begin(), parts.end(),
          [&](const auto& part) { return is_number(t_[part.second - 1].text) && part.second - part.first <= 2; });
      if (parts.empty() || !(numbers || any(":") || any("None") || any("newaxis") || any("."))) continue;
      const auto added = static_cast<std::size_t>(std::count_if(parts.begin(), parts.end(),
          [&](const auto& part) { return is(part.first, "None") || is(part.first, "newaxis"); }));
      std::vector<std::string> indices, reads;
      Sizes left;
      std::size_t d = 0;
      for (const auto& [from, to] : parts) {
        if (is(from, "None") || is(from, "newaxis")) {
          indices.emplace_back("0"), left.emplace_back("1");
          continue;
        }
        if (is(from, ".")) {                             // `...`: whole dimensions, as many as are left
          for (std::size_t left_out = sizes->size() + added + 1 - std::min(sizes->size() + added + 1, parts.size());
              left_out > 0 && d < sizes->size(); --left_out, ++d)
            indices.push_back(fresh("i", true)), reads.push_back(indices.back()), left.push_back((*sizes)[d]);
          continue;
        }
        if (d >= sizes->size()) return false;
        const auto part = sliced(from, to, (*sizes)[d++]);
        if (!part) return false;
        reads.push_back(part->read);
        if (!part->index.empty()) indices.push_back(part->index), left.push_back(part->size);
      }
      for (; d < sizes->size(); ++d)
        indices.push_back(fresh("i", true)), reads.push_back(indices.back()), left.push_back((*sizes)[d]);
      if (has_element()) return false;
      return compute(i, close + 1, "Part", indices, left, fmt::format("=({}[{}])", t_[i].text, fmt::join(reads, ", ")));
    }
    return false;
  }

  struct Sliced { std::string read, index, size; };
  std::optional<Sliced> sliced(std::size_t from, std::size_t to, const std::string& size) {
    std::vector<std::string> parts(1);
    for (std::size_t k = from; k < to; ++k) {
      if (is(k, ":")) parts.emplace_back();
      else parts.back() += std::string(t_[k].text);
    }
    const auto from_end = [&](const std::string& text) {
      return text.starts_with("-") ? size + " - " + text.substr(1) : text;
    };
    if (parts.size() == 1) return Sliced{from_end(parts[0]), "", ""};
    const std::string index = fresh("i", true), step = parts.size() > 2 ? parts[2] : "";
    const std::string begin = from_end(parts[0]), end = parts[1].empty() ? size : from_end(parts[1]);
    if (step == "-1" && parts[0].empty() && parts[1].empty())
      return Sliced{fmt::format("{} - 1 - {}", size, index), index, size};
    const std::string extent = begin.empty()
        ? end
        : fmt::format("{} - {}", end, begin.find(' ') == std::string::npos ? begin : "(" + begin + ")");
    if (step.empty() || step == "1")
      return Sliced{begin.empty() ? index : fmt::format("{} + {}", index, begin), index, extent};
    if (!is_number(step)) return std::nullopt;
    return Sliced{fmt::format("{}*{}{}", step, index, begin.empty() ? "" : " + " + begin), index,
        fmt::format("({} - 1)/{} + 1", extent, step)};
  }

  // `X[(i + 1) % N]`: two statements, of which the second takes what lies within.
  bool wraps() {
    for (std::size_t i = equals_ + 1; i + 1 < t_.size(); ++i) {
      if (!word(i) || !is(i + 1, "[")) continue;
      const auto parts = list(i + 1);
      for (std::size_t d = 0; d < parts.size(); ++d) {
        const auto wrapped = remainder(parts[d].first, parts[d].second);
        if (!wrapped) continue;
        std::vector<std::string> indices, inside, outside;
        Sizes left;
        for (std::size_t e = 0; e < parts.size(); ++e) {
          const std::string text = e == d ? wrapped->index : slice(parts[e].first, parts[e].second);
          if (!is_index_name(text) ||
              text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos)
            return false;
          const auto known = e == d ? std::optional(wrapped->size) : index_size(text);
          if (!known || among(indices, text)) return false;
          indices.push_back(text), left.push_back(*known);
          inside.push_back(e == d ? wrapped->form : text);
          outside.push_back(
              e == d ? fmt::format("{} {} {}", wrapped->form, wrapped->forward ? "-" : "+", wrapped->size) : text);
        }
        const std::string tensor(t_[i].text), round = fresh("Round"), shifted = fresh("Shifted");
        put_before(round, indices, left, fmt::format("=({}[{}])", tensor, fmt::join(outside, ", ")));
        put_before(shifted, indices, left, fmt::format("=({}[{}]) default {}", tensor, fmt::join(inside, ", "), round));
        return replace(i, closing(t_, i + 1) + 1, fmt::format("{}[{}]", shifted, fmt::join(indices, ", ")));
      }
    }
    return false;
  }

  std::optional<std::string> index_size(const std::string& index) const {
    for (const auto& [name, size] : kept())
      if (name == index && !size.empty()) return size;
    return size_of_index(index);
  }

  struct Wrapped { std::string form, index, size; bool forward; };
  // `(i + 1) % N` or `mod(i - 1, N)`, an index with a number added.
  std::optional<Wrapped> remainder(std::size_t from, std::size_t to) const {
    std::size_t first = from + 1, last = from, size = 0;
    if (is(from, "(") && is(closing(t_, from) + 1, "%")) last = closing(t_, from), size = last + 2;
    else if (is(from, "mod") && is(from + 1, "(") && list(from + 1).size() == 2) {
      const auto parts = list(from + 1);
      first = parts[0].first, last = parts[0].second, size = parts[1].first;
      if (parts[1].second != size + 1) return std::nullopt;
    } else return std::nullopt;
    const std::size_t end = is(from, "mod") ? size + 2 : size + 1;
    if (end != to || last - first != 3 || !word(first) || !is_index_name(t_[first].text) ||
        !is_one_of(t_[first + 1].text, "+-") || !is_number(t_[first + 2].text) || !word(size))
      return std::nullopt;
    return Wrapped{slice(first, last), std::string(t_[first].text), std::string(t_[size].text), is(first + 1, "+")};
  }

  bool remainders() {
    for (std::size_t i = equals_ + 1; i + 1 < t_.size(); ++i) {
      if (!is(i, "%") || !ends_operand(i - 1)) continue;
      const std::size_t open = enclosing(i);
      if (open != t_.size() && is(open, "[")) return false;
      const std::size_t first = operand_first(i - 1), end = operand_end(i + 1);
      note_sign(slice(first, i), slice(i + 1, end));
      return replace(first, end, fmt::format("mod({}, {})", slice(first, i), slice(i + 1, end)));
    }
    return false;
  }
  // Python's `%` and NumPy's and PyTorch's remainders differ there from C's, and from ours.
  void note_sign(const std::string& of, const std::string& by) {
    const std::string rest = fmt::format("mod({}, {})", of, by);
    const bool above_0 = std::isdigit(static_cast<unsigned char>(by.front())) != 0;
    const std::string other_sign = above_0 ? rest + " < 0" : fmt::format("({0} < 0) != ({1} < 0) & {0} != 0", rest, by);
    note_ = fmt::format(
        "`mod` has the sign of its first operand, as `%` in C; for that of the second, as in Python, write `{1} ? {0} + {2} : {0}`",
        rest, other_sign, by);
  }

  // ---- functions with an axis ----

  // `cat((A, B), 1)`, `roll(X, 1, axis=0)`, `stack([A, B])`, `flip(X, 0)` of tensors whose ranks the text has.
  bool movements() {
    for (std::size_t i = equals_ + 1; i + 2 < t_.size(); ++i) {
      if (!word(i) || !is(i + 1, "(") || closing(t_, i + 1) == t_.size()) continue;
      const auto parts = list(i + 1);
      if (parts.empty()) continue;
      const bool joins = is(i, "cat") || is(i, "concat") || is(i, "concatenate") || is(i, "stack"),
                 rolls = is(i, "roll");
      if (!joins && !rolls && !is(i, "flip")) continue;
      const bool apart = joins && listed(parts[0]).empty();  // `cat(A, B)`
      const auto operands = apart ? parts : joins ? listed(parts[0]) : std::vector{parts[0]};
      if (operands.size() < (joins ? 2 : 1) || (is(i, "stack") && operands.size() > 2)) continue;
      std::size_t rank = 0;
      bool known = true;
      for (const auto& [from, to] : operands) {
        const Sizes* sizes = to == from + 1 ? shape(t_[from].text) : nullptr;
        known = known && sizes && !sizes->empty();
        if (known) rank = sizes->size();
      }
      std::optional<std::int64_t> axis = joins || rank == 1 ? std::optional<std::int64_t>(0) : std::nullopt;
      std::string shift;
      for (std::size_t p = 1; p < parts.size() && !apart; ++p) {
        const bool named = is(parts[p].first + 1, "=");
        const std::string text = slice(parts[p].first + (named ? 2 : 0), parts[p].second);
        if (rolls && (named ? t_[parts[p].first].text.starts_with("shift") : p == 1)) shift = text;
        else if (text.size() <= 2 && is_number(text.substr(text[0] == '-'))) axis = std::stoi(text);
        else known = false;
      }
      const auto name = known && axis && rolls == !shift.empty() ? moving(t_[i].text, rank, *axis) : std::nullopt;
      if (!name) continue;
      std::string call = slice(operands[0].first, operands[0].second);
      if (!joins) call = fmt::format("{}{}({})", *name, rolls ? fmt::format("<{}>", shift) : "", call);
      for (std::size_t p = 1; p < operands.size(); ++p)
        call = fmt::format("{}({}, {})", *name, call, slice(operands[p].first, operands[p].second));
      if (call != slice(i, closing(t_, i + 1) + 1)) return replace(i, closing(t_, i + 1) + 1, call);
    }
    return false;
  }

  // What a tuple or a list holds.
  std::vector<std::pair<std::size_t, std::size_t>> listed(std::pair<std::size_t, std::size_t> part) const {
    const bool is_list = is_one_of(t_[part.first].text, "([") && closing(t_, part.first) + 1 == part.second;
    return is_list ? list(part.first) : std::vector<std::pair<std::size_t, std::size_t>>();
  }

  // `reshape(X, -1)`: the size that is left.
  bool reshapes() {
    for (std::size_t i = equals_ + 1; i + 2 < t_.size(); ++i) {
      const Sizes* sizes = is(i, "reshape") && is(i + 1, "(") && word(i + 2) ? shape(t_[i + 2].text) : nullptr;
      const auto parts = sizes ? list(i + 1) : std::vector<std::pair<std::size_t, std::size_t>>();
      if (parts.size() < 2 || parts[0].second != i + 3) continue;
      const auto given = parts.size() == 2 && !listed(parts[1]).empty() ? listed(parts[1])
                                                                        : std::vector(parts.begin() + 1, parts.end());
      Sizes rest = *sizes;
      std::string divisors;
      std::vector<std::string> wanted;
      std::optional<std::size_t> open;
      for (const auto& [from, to] : given) {
        wanted.push_back(slice(from, to));
        if (wanted.back() == "-1") {
          if (open) return false;
          open = wanted.size() - 1;
        } else if (const auto at = std::find(rest.begin(), rest.end(), wanted.back()); at != rest.end()) rest.erase(at);
        else if (wanted.back() != "1") divisors += " / " + (to == from + 1 ? wanted.back() : "(" + wanted.back() + ")");
      }
      if (!open) continue;
      wanted[*open] = (rest.empty() ? "1" : fmt::format("{}", fmt::join(rest, " * "))) + divisors;
      return replace(
          i, closing(t_, i + 1) + 1, fmt::format("reshape({}, {})", t_[i + 2].text, fmt::join(wanted, ", ")));
    }
    return false;
  }

  // ---- aggregations inside expressions ----

  // Does an aggregation begin here: `+(`, not behind an operand?
  const Reduction* aggregation(std::size_t i) const {
    if (i + 1 >= t_.size() || !is(i + 1, "(") || i <= equals_) return nullptr;
    if (word(i)) {
      const Reduction* named = reduction_named(t_[i].text);
      return named && list(i + 1).size() == 1 ? named : nullptr;
    }
    if (i > equals_ + 1 && ends_operand(i - 1)) return nullptr;
    const bool unary = is(i, "+") || is(i, "*") || is(i, ">") || is(i, "<");
    return unary ? reduction_marked(t_[i].text) : nullptr;
  }

  // Is this the aggregation of the whole statement?
  bool is_outermost(std::size_t i) const {
    if (i != equals_ + 1) return false;
    const std::size_t close = closing(t_, i + 1);
    return close + 1 >= t_.size() || is(close + 1, ",") || is(close + 1, "default") || is(close + 1, "no_defract") ||
        is(close + 1, "no_reduce");
  }

  bool reduction_inside() {
    for (std::size_t i = t_.size(); i-- > equals_ + 1;) {
      const Reduction* reduction = aggregation(i);
      if (!reduction || (is_outermost(i) && has_element())) continue;
      const std::size_t close = closing(t_, i + 1);
      if (close == t_.size()) return false;
      const std::set<std::string> used = indices_in(i + 2, close);
      if (used.empty()) continue;                      // of a whole tensor that the text does not know
      std::vector<std::string> indices;
      Sizes sizes;
      for (const auto& [index, size] : kept()) {
        if (!used.contains(index)) continue;
        if (size.empty()) return false;
        indices.push_back(index), sizes.push_back(size);
      }
      std::string body = slice(i + 2, close);
      if (reduction->result == "Mean")
        for (const std::string& index : used)
          if (!among(indices, index)) {
            const auto size = size_of_index(index);
            if (!size) return false;
            body += " / " + *size;
          }
      const std::string name = fresh(reduction->result);
      put_before(name, indices, sizes, fmt::format("{}({})", reduction->mark, body));
      return replace(i, close + 1, has_element() ? fmt::format("{}[{}]", name, fmt::join(indices, ", ")) : name);
    }
    return false;
  }

  // Lower-case names inside brackets.
  std::set<std::string> indices_in(std::size_t first, std::size_t last) const {
    std::set<std::string> found;
    int depth = 0;
    for (std::size_t k = first; k < last; ++k) {
      depth += is(k, "[") - is(k, "]");
      if (depth > 0 && word(k) && is_index_name(t_[k].text) && !is(k + 1, "(") && !is(k + 1, "[") && !shape(t_[k].text))
        found.emplace(t_[k].text);
    }
    return found;
  }

  // `X[b, Y[b]]`: of all `c`, the one that equals Y[b]. `X[I[i]]`: rows.
  bool gathers() {
    if (!has_element()) return false;
    for (std::size_t i = equals_ + 1; i + 3 < t_.size(); ++i) {
      if (!word(i) || !is(i + 1, "[")) continue;
      const auto parts = list(i + 1);
      for (std::size_t d = 0; d < parts.size(); ++d) {
        const auto [from, to] = parts[d];
        if (d == 0 && word(from) && (is(from, "max") || is(from, "min") || is(from, "clamp") || is(from, "abs")) &&
            is(from + 1, "(") && closing(t_, from + 1) + 1 == to && computed(from, to))
          return true;
        if (!word(from) || !is(from + 1, "[") || closing(t_, from + 1) + 1 != to) continue;
        return d == 0 ? gathered(i, parts) : chosen(from, to);
      }
    }
    return false;
  }

  // `X[max(i - 1, 0)]`: positions are computed first.
  bool computed(std::size_t from, std::size_t to) {
    const auto left = kept();
    std::vector<std::string> indices;
    Sizes sizes;
    for (const auto& [index, size] : left) {
      bool used = false;
      for (std::size_t k = from; k < to; ++k) used |= t_[k].text == index;
      if (used && size.empty()) return false;
      if (used) indices.push_back(index), sizes.push_back(size);
    }
    if (indices.empty()) return false;
    const std::string name = fresh("Positions");
    put_before(name, indices, sizes, fmt::format("=(i32({}))", slice(from, to)));
    return replace(from, to, fmt::format("{}[{}]", name, fmt::join(indices, ", ")));
  }

  bool gathered(std::size_t i, const std::vector<std::pair<std::size_t, std::size_t>>& parts) {
    const std::size_t from = parts[0].first, to = parts[0].second;
    const std::string name = fresh("Rows"), tensor(t_[i].text), positions(t_[from].text),
                      inner = slice(from + 2, to - 1), rest = slice(to, closing(t_, i + 1));
    before_.push_back(fmt::format("{} = gather({}, {});", name, tensor, positions));
    const Sizes *a = shape(tensor), *b = shape(positions);
    if (a && b && !a->empty()) {
      Sizes sizes = *b;
      sizes.insert(sizes.end(), a->begin() + 1, a->end());
      shapes_[name] = sizes;
    }
    return replace(i, closing(t_, i + 1) + 1, fmt::format("{}[{}{}]", name, inner, rest));
  }

  bool chosen(std::size_t from, std::size_t to) {
    std::size_t first = equals_ + 1, last = t_.size();
    const bool outermost =
        (is(first, "=") || is(first, "+")) && is(first + 1, "(") && closing(t_, first + 1) + 1 == last;
    if (outermost) first += 2, --last;
    else if (is(first, ">") || is(first, "<")) return false;
    const std::string index = fresh("c", !words_.contains("c") ? false : true), position = slice(from, to);
    const std::string body = text_.substr(t_[first].begin, t_[from].begin - t_[first].begin) + index +
        text_.substr(t_[to - 1].end(), t_[last - 1].end() - t_[to - 1].end());
    return replace(equals_ + 1, t_.size(), fmt::format("+({} == {} ? {} : 0.0)", position, index, body));
  }

  // `conv2d(I, K, stride=2)`, `roll(X, 1)`: numbers known before the run stand in `< >`, in the order of the heading.
  bool keywords() {
    for (std::size_t i = 0; i + 2 < t_.size(); ++i) {
      if (!word(i) || !is(i + 1, "(") || (i > 0 && is(i - 1, ".")) || reduction_named(t_[i].text) ||
          is_scalar_function(t_[i].text))
        continue;
      const std::size_t close = closing(t_, i + 1);
      if (close == t_.size()) continue;
      std::vector<std::string> plain;
      std::map<std::string, std::string> named;
      for (const auto& [from, to] : list(i + 1)) {
        if (word(from) && is(from + 1, "=") && !is(from + 2, "="))
          named[std::string(t_[from].text)] = slice(from + 2, to);
        else plain.push_back(slice(from, to));
      }
      const auto heading = std::find_if(standard_names().begin(), standard_names().end(),
          [&](const StandardName& each) { return each.name == t_[i].text; });
      if (heading == standard_names().end()) continue;
      const auto rank = [&](const std::string& name) {
        return shape(name) ? std::optional(shape(name)->size()) : std::nullopt;
      };
      if (const auto call = called_as(heading->heading, plain, named, rank))
        return replace(i, close + 1, std::string(t_[i].text) + *call);
    }
    return false;
  }

  // `+(X[i]), I[i] == 2`: a constraint reads no tensor; a choice does.
  bool constraint_of_elements() {
    const std::size_t first = equals_ + 1;
    if (!has_element() || first + 1 >= t_.size() || !is(first + 1, "(") || !is_outermost(first)) return false;
    const std::size_t close = closing(t_, first + 1);
    for (std::size_t i = close + 2; i + 1 < t_.size(); ++i) {
      const auto [from, to] = segment(i);
      if (from > close && word(i) && is(i + 1, "[") && (is(first, "+") || is(first, "=") || is(first, "sum"))) {
        const std::string rest = slice(close + 1, from - 1) + (to < t_.size() ? slice(to, t_.size()) : "");
        return replace(first, t_.size(),
            fmt::format("{}({} ? {} : 0.0){}", t_[first].text, slice(from, to), slice(first + 2, close), rest));
      }
    }
    return false;
  }

  // `Y[i: N] = Y[i - 1] + X[i]`, and with `*`: a running sum.
  bool running() {
    if (!has_element() || equals_ < 3) return false;
    const auto left = kept();
    std::size_t first = equals_ + 1, last = t_.size();
    if (is(first, "=") && is(first + 1, "(") && closing(t_, first + 1) + 1 == last) first += 2, --last;
    const std::string_view name = t_[opening(equals_ - 1) - 1].text;
    for (const auto& [index, size] : left)
      for (std::size_t i = first; i < last; ++i) {
        if (t_[i].text != name || !is(i + 1, "[") || slice(i + 2, closing(t_, i + 1)).empty()) continue;
        std::vector<std::string> reads;
        for (const auto& [from, to] : list(i + 1)) {
          std::string part;
          for (std::size_t k = from; k < to; ++k) part += t_[k].text;
          reads.push_back(part);
        }
        std::vector<std::string> wanted;
        for (const auto& [other, unused] : left) wanted.push_back(other == index ? index + "-1" : other);
        const std::size_t end = closing(t_, i + 1) + 1;
        const bool begins = i == first && end + 1 < last && is_one_of(t_[end].text, "+*"),
                   ends = end == last && i > first + 1 && is_one_of(t_[i - 1].text, "+*");
        if (reads != wanted || (!begins && !ends)) continue;
        const std::string mark(t_[begins ? end : i - 1].text);
        const std::size_t from = begins ? end + 1 : first, to = begins ? last : i - 1;
        std::string body;
        const std::string other = fresh("k", true);
        for (std::size_t k = from; k < to; ++k) {
          if (t_[k].text == name ||
              (enclosing(k) == (from == first ? enclosing(first) : enclosing(from)) &&
                  is_one_of(t_[k].text, mark == "+" ? "?" : "+-?")))
            return false;
          if (k > from && !t_[k].touches) body += " ";
          body += t_[k].text == index ? other : std::string(t_[k].text);
        }
        text_ = fmt::format("{} = {}({}), {} <= {}", slice(0, equals_), mark, body, other, index);
        read();
        return true;
      }
    return false;
  }

  // `, j > i`
  bool comparison_of_constraint() {
    for (std::size_t i = equals_ + 2; i + 1 < t_.size(); ++i) {
      if (!is(i, ">") || is(i + 1, "=") || is(i + 1, "(") || enclosing(i) != t_.size() || !ends_operand(i - 1))
        continue;
      const auto [first, last] = segment(i);
      if (first == equals_ + 1) continue;
      return replace(i, last, fmt::format(">= {} + 1", slice(i + 1, last)));
    }
    return false;
  }

  // Sizes behind the indices, and an aggregation.
  bool target() {
    if (!has_element()) return false;
    const std::size_t open = element();
    std::size_t colon = open;
    while (colon < equals_ && !is(colon, ":")) ++colon;
    if (colon == equals_ && open + 1 < equals_ - 1) {
      Sizes sizes;
      for (const auto& [from, to] : list(open)) {
        const auto size = size_of_index(slice(from, to));
        if (!size) return false;
        sizes.push_back(*size);
      }
      return replace(equals_ - 1, equals_ - 1, fmt::format(": {}", fmt::join(sizes, ", ")));
    }
    const std::size_t first = equals_ + 1;
    if (first >= t_.size()) return false;
    const bool marked = is_one_of(t_[first].text, "+*<>=") && is(first + 1, "(") && is_outermost(first);
    const bool named = word(first) && is(first + 1, "(") && is_outermost(first) &&
        (among(std::array<std::string_view, 3>{"sum", "product", "assign"}, t_[first].text) ||
            ((is(first, "max") || is(first, "min")) && list(first + 1).size() == 1));
    if (marked || named) return false;
    if (is(first, "mean") && is_outermost(first) && list(first + 1).size() == 1) {
      std::string count;
      const auto left = kept();
      for (const std::string& index : indices_in(first + 2, closing(t_, first + 1))) {
        if (std::any_of(left.begin(), left.end(), [&](const auto& each) { return each.first == index; })) continue;
        const auto size = size_of_index(index);
        if (!size) return false;
        count += " / " + *size;
      }
      return replace(
          first, closing(t_, first + 1) + 1, fmt::format("+({}{})", slice(first + 2, closing(t_, first + 1)), count));
    }
    for (std::size_t k = first; k + 1 < t_.size(); ++k)
      // of whole tensors
      if (const Builtin* made = is(k + 1, "(") ? builtin_named(t_[k].text) : nullptr; made && made->makes_tensors)
        return false;
    std::set<std::string> free = indices_in(first, t_.size());
    for (std::size_t k = open + 1; k < equals_ - 1; ++k) free.erase(std::string(t_[k].text));
    const std::size_t last = segment(first).second;
    if (const Reduction* reduction = word(first) && is_outermost(first) && list(first + 1).size() == 1
            ? reduction_named(t_[first].text)
            : nullptr;
        reduction && reduction->result != "Mean")
      return replace(first, first + 1, std::string(reduction->mark));
    return replace(first, last, fmt::format("{}({})", free.empty() ? "=" : "+", slice(first, last)));
  }
};

}  // namespace

StatementTexts::StatementTexts(std::string_view text) {
  const Tokens t = tokens_of(text);
  std::size_t function = 0;
  bool inside = false;
  for (std::size_t k = 0; k < t.size(); ++k) {
    if (t[k].text == "function") function = t[k].begin, inside = false;
    else if (t[k].text == "{") inside = true;
    else if (t[k].text == "}") inside = false;
    else if (inside && t[k].starts && t[k].text != ";") {
      std::size_t last = k;
      while (last + 1 < t.size() && !is_one_of(t[last].text, ";{}")) ++last;
      if (last > k && t[last].text == ";") all_.push_back({t[k].begin, t[last].end(), function}), k = last;
    }
  }
}

std::optional<StatementText> StatementTexts::at(std::size_t offset) const {
  auto behind = std::upper_bound(
      all_.begin(), all_.end(), offset, [](std::size_t place, const StatementText& s) { return place < s.begin; });
  if (behind == all_.begin() || std::prev(behind)->end <= offset) return std::nullopt;
  return *std::prev(behind);
}

namespace {

// A heading as Python, Rust or C write it, in the order of Tile: `(A: float32[N],) -> B` ⇒ `(f32 A[N]) -> (B)`.
class HeadingRepair {
 public:
  explicit HeadingRepair(std::string_view heading) : text_(heading) { read(); }

  std::optional<std::string> run() {
    bool changed = false;
    for (int steps = 0; steps < 60 && (commas() || types() || results() || sizes_of_results()); ++steps) changed = true;
    return changed ? std::optional(text_) : std::nullopt;
  }

 private:
  std::string text_;
  Reachable t_;
  std::size_t arrow_ = 0;                              // behind `->`; t_.size(): none

  void read() {
    t_ = tokens_of(text_);
    for (arrow_ = 2; arrow_ < t_.size() && !(is(arrow_ - 2, "-") && is(arrow_ - 1, ">")); ++arrow_) {}
  }
  bool is(std::size_t i, std::string_view text) const { return t_[i].text == text; }
  std::string slice(std::size_t first, std::size_t last) const {
    return first < last ? text_.substr(t_[first].begin, t_[last - 1].end() - t_[first].begin) : "";
  }
  bool replace(std::size_t first, std::size_t last, const std::string& with) {
    text_ = text_.substr(0, t_[first].begin) + with + text_.substr(t_[last - 1].end());
    read();
    return true;
  }

  bool commas() {
    for (std::size_t i = 1; i + 1 < t_.size(); ++i)
      if (is(i, ",") && !is_one_of(t_[i - 1].text, "([,") && is_one_of(t_[i + 1].text, ")]"))
        return replace(i, i + 1, "");
    return false;
  }

  // `A: f32`, `A: f32[N]`, `A[N]: float`, `float A[N]`
  bool types() {
    for (std::size_t i = 1; i + 1 < t_.size(); ++i) {
      const std::optional<std::string> type = is_word(t_[i].text) ? type_called(t_[i].text) : std::nullopt;
      if (type && is_word(t_[i + 1].text) && is_one_of(t_[i - 1].text, "(,") && *type != t_[i].text)
        return replace(i, i + 1, *type);
      // `f32[N] A`
      if (type && is_one_of(t_[i - 1].text, "(,") && is(i + 1, "[") && is_word(t_[closing(t_, i + 1) + 1].text)) {
        const std::size_t close = closing(t_, i + 1);
        return replace(i, close + 2, fmt::format("{} {}{}", *type, t_[close + 1].text, slice(i + 1, close + 1)));
      }
      if (!type || !is(i - 1, ":")) continue;
      std::size_t name = i - 2;
      const bool sized = is(name, "]");
      if (sized)
        while (name > 0 && !is(name, "[")) --name;
      if (sized && name > 0) --name;
      if (name == 0 || !is_word(t_[name].text) || !is_one_of(t_[name - 1].text, "(,")) continue;
      const std::size_t end = is(i + 1, "[") && !sized ? std::min(closing(t_, i + 1) + 1, t_.size()) : i + 1;
      return replace(name, end, fmt::format("{} {}{}", *type, slice(name, i - 1), slice(i + 1, end)));
    }
    return false;
  }

  bool results() {
    for (std::size_t i = 2; i + 1 < t_.size(); ++i)
      if (is(i - 2, ")") && is(i - 1, "=") && is(i, ">")) return replace(i - 1, i + 1, "->");
    if (!is_word(t_[arrow_].text) || type_called(t_[arrow_].text) || arrow_ + 1 < t_.size()) return false;
    return replace(arrow_, arrow_ + 1, fmt::format("({})", t_[arrow_].text));
  }

  // Statements say them.
  bool sizes_of_results() {
    for (std::size_t i = arrow_ + 1; i + 1 < t_.size(); ++i)
      if (is(i, "[") && is_word(t_[i - 1].text) && closing(t_, i) < t_.size())
        return replace(i, closing(t_, i) + 1, "");
    return false;
  }
};

}  // namespace

std::optional<std::string> repaired_heading(std::string_view heading) { return HeadingRepair(heading).run(); }

std::optional<StatementText> heading_at(std::string_view text, std::size_t offset) {
  std::optional<StatementText> heading;
  for (const Token& token : tokens_of(text)) {
    const bool begins = token.text == "function" || token.text == "gradient" || token.text == "tangent";
    if (begins && token.begin > offset) return std::nullopt;
    if (begins && (!heading || heading->end != 0)) heading = StatementText{token.begin, 0, token.begin};
    if (token.text == "{" && heading && heading->end == 0) heading->end = token.begin;
    if (heading && heading->end > offset) break;
  }
  if (!heading || heading->end <= offset) return std::nullopt;
  while (heading->end > heading->begin && (text[heading->end - 1] == ' ' || text[heading->end - 1] == '\n'))
    --heading->end;
  return heading->end > offset ? heading : std::nullopt;
}

std::optional<Repaired> repaired(std::string_view text, const StatementText& statement) {
  if (statement.end - statement.begin > 1000) return std::nullopt;
  std::string own;                                     // on one line
  for (const Token& token : tokens_of(text, statement.begin, statement.end - 1)) {
    if (token.text.starts_with("//")) return std::nullopt;
    own.append(own.empty() || token.touches ? "" : " ").append(token.text);
  }
  std::size_t end = text.find('}', statement.end);
  end = std::min(end, text.size());
  return Repair(own, text.substr(statement.function, statement.begin - statement.function),
      text.substr(statement.function, end - statement.function))
      .run();
}

}  // namespace tilec::lang
