#include "lang/idiom.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "lang/builtin.h"
#include "lang/op.h"
#include "lang/tokens.h"
#include "lang/type.h"

namespace tilec::lang {
namespace {

constexpr std::size_t reach = 400;                     // how far around the place statements are looked at

Tokens tokens_around(std::string_view text, std::size_t begin, std::size_t offset) {
  return tokens_of(text, std::max(begin, offset - std::min(offset, reach)), std::min(text.size(), offset + reach));
}

constexpr auto is_digit = [](char c) { return c >= '0' && c <= '9'; };

// ---- patterns -------------------------------------------------------------------------------------------------------

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Takes a tensor and then an axis.
bool has_axis(std::string_view name) {
  const Builtin* builtin = builtin_named(name);
  return builtin != nullptr && builtin->makes_tensors && builtin->arguments.most == 2 && builtin->sizes_from == 1;
}

class Match {
 public:
  Match(std::string_view text, const Tokens& tokens, std::size_t stopped)
      : text_(text), tokens_(tokens), stopped_(stopped) {}

  // `stopped_` is the token where reading stopped; the match contains it, or ends in front of it.
  bool at(const std::vector<std::string_view>& pattern, std::size_t begin) {
    captures.clear();
    first = begin;
    return step(pattern, 0, begin);
  }

  std::vector<std::string> captures;
  std::size_t first = 0, last = 0;                     // tokens first … last - 1

 private:
  std::string_view text_;
  const Tokens& tokens_;
  std::size_t stopped_;

  bool step(const std::vector<std::string_view>& pattern, std::size_t p, std::size_t t) {
    if (p == pattern.size()) {
      last = t;
      return last >= stopped_ && last > first;
    }
    std::string_view wanted = pattern[p];
    if (wanted == "START") return t < tokens_.size() && tokens_[t].starts && step(pattern, p + 1, t);
    if (wanted == "NEAR") return t < tokens_.size() && tokens_[t].touches && step(pattern, p + 1, t);
    if (wanted == "…") return balanced(pattern, p, t);
    if (t >= tokens_.size()) return false;
    if (wanted.size() > 1 && wanted[0] == '!') {
      if (t != stopped_) return false;
      wanted.remove_prefix(1);
    }
    if (wanted == "DOTTED") return dotted(pattern, p, t);
    if (wanted == "AGG" && t > 0 && ends_operand(tokens_[t - 1].text)) return false;  // `2.0*(X[i] + 1)`: a product
    const std::string_view token = tokens_[t].text;
    const std::optional<bool> captured = fits(wanted, token);
    if (!captured) return false;
    if (*captured) captures.emplace_back(token);
    if (step(pattern, p + 1, t + 1)) return true;
    if (*captured) captures.pop_back();
    return false;
  }

  static bool ends_operand(std::string_view token) {
    return is_one_of(token, ")]") || is_number(token) ||
        (is_word(token) && token != "else" && token != "and" && token != "or" && token != "return");
  }

  // Whether a token is what the pattern wants; the value says whether it is kept.
  static std::optional<bool> fits(std::string_view wanted, std::string_view token) {
    const auto kept = [](bool holds) { return holds ? std::optional(true) : std::nullopt; };
    if (wanted == "WORD") return kept(is_word(token));
    if (wanted == "TYPE") return kept(dtype_named(token).has_value());
    if (wanted == "NUMBER") return kept(is_number(token));
    if (wanted == "ATOM") return kept(is_word(token) || is_number(token));
    if (wanted == "OP") return kept(is_one_of(token, "+-*/&|^"));
    if (wanted == "AXIAL") return kept(has_axis(token));
    if (wanted == "AGG") return is_one_of(token, "+*><=") ? std::optional(false) : std::nullopt;
    const bool holds = wanted == "STRING" ? token[0] == '"' || token[0] == '\''
        : wanted == "INLINE"              ? token.starts_with("//")
        : wanted == "#WORD"               ? token.size() > 1 && token[0] == '#'
        : wanted == "SUFFIX"              ? is_one_of(token, "fFlLuUhdj")
        : wanted == "HEX"                 ? is_word(token) && (token[0] == 'x' || token[0] == 'b' || token[0] == 'o')
        : wanted == "UNDERSCORE"          ? token[0] == '_'
                                          : wanted == token;
    return holds ? std::optional(false) : std::nullopt;
  }

  // The shortest run after which the rest fits. It may close no bracket that it did not open.
  bool balanced(const std::vector<std::string_view>& pattern, std::size_t p, std::size_t t) {
    int depth = 0;
    for (std::size_t end = t; end <= tokens_.size(); ++end) {
      if (depth == 0) {
        captures.push_back(between(t, end));
        if (step(pattern, p + 1, end)) return true;
        captures.pop_back();
      }
      if (end == tokens_.size() || is_one_of(tokens_[end].text, ";{}")) return false;
      if (is_one_of(tokens_[end].text, "([")) ++depth;
      if (is_one_of(tokens_[end].text, ")]") && --depth < 0) return false;
    }
    return false;
  }

  // `np.linalg.norm`, `X.sum`: keeps the first word and the last.
  bool dotted(const std::vector<std::string_view>& pattern, std::size_t p, std::size_t t) {
    if (!is_word(tokens_[t].text)) return false;
    std::size_t end = t + 1;
    while (end + 1 < tokens_.size() && tokens_[end].text == "." && is_word(tokens_[end + 1].text)) end += 2;
    if (end == t + 1) return false;
    captures.emplace_back(tokens_[t].text);
    captures.emplace_back(tokens_[end - 1].text);
    if (step(pattern, p + 1, end)) return true;
    captures.resize(captures.size() - 2);
    return false;
  }

  std::string between(std::size_t from, std::size_t to) const {
    if (from >= to) return "";
    const Token& end = tokens_[to - 1];
    return std::string(text_.substr(tokens_[from].begin, end.begin + end.text.size() - tokens_[from].begin));
  }
};

// ---- hints ----------------------------------------------------------------------------------------------------------

constexpr std::string_view modules[] = {"np", "numpy", "torch", "tf", "tensorflow", "jnp", "jax", "math", "F", "nn",
    "cp", "cupy", "scipy", "std", "tl", "hl", "K", "paddle", "mx"};

bool listed(std::string_view names, std::string_view name) {
  const std::vector<std::string_view> words = words_of(names);
  return std::find(words.begin(), words.end(), name) != words.end();
}

std::optional<std::string> row_for(Idiom::Kind kind, std::string_view name) {
  for (const Idiom& row : idioms())
    if (row.kind == kind && listed(row.pattern, name)) return std::string(row.hint);
  return std::nullopt;
}

bool built_in(std::string_view name) {
  return function_named(name) || builtin_named(name) != nullptr || dtype_named(name);
}

// Which file of std/ has it, and how it is called there.
std::optional<std::string> import_of(std::string_view name) {
  std::string files, heading;
  for (const StandardName& each : standard_names()) {
    if (each.name != name) continue;
    files += std::string(files.empty() ? "" : " or ") + "`import \"std/" + std::string(each.file) + ".tile\";`";
    heading += std::string(heading.empty() ? "`" : " or `") + std::string(each.heading) + "`";
  }
  return files.empty() ? std::nullopt : std::optional(files + " has " + heading);
}

std::optional<std::string> function_hint(std::string_view name) {
  if (auto row = row_for(Idiom::Kind::Function, name)) return row;
  for (const Alias& alias : aliases()) {
    if (alias.foreign != name) continue;
    if (built_in(alias.name)) return "it is called `" + std::string(alias.name) + "` here";
    return import_of(alias.name);
  }
  if (auto row = row_for(Idiom::Kind::Type, name)) return row;
  for (const OtherName& each : other_standard_names())
    if (each.other == name && !built_in(name)) return import_of(each.name);
  return import_of(name);
}

std::string called(const std::vector<std::string>& captures) {
  const std::string &first = captures[0], &last = captures[1], &arguments = captures[2];
  if (last == "astype" || last == "to" || last == "type")
    if (const auto type = row_for(Idiom::Kind::Type, arguments.substr(arguments.rfind('.') + 1)))
      return "a cast is a call of the type: " + type->substr(type->find(' ') + 1, type->size() - type->find(' ') - 2) +
          "(" + first + ")`";
  if (const auto hint = built_in(last) ? row_for(Idiom::Kind::Function, last) : function_hint(last)) return *hint;
  if (!built_in(last)) return "functions are called by their name alone: `exp(X)`; there is no `" + last + "`";
  const bool of_module = std::find(std::begin(modules), std::end(modules), first) != std::end(modules);
  return "write `" + last + "(" + (of_module ? arguments : arguments.empty() ? first : first + ", " + arguments) + ")`";
}

std::string named(const std::vector<std::string>& captures) {
  for (const Idiom::Kind kind : {Idiom::Kind::Value, Idiom::Kind::Type, Idiom::Kind::Function})
    if (auto hint = row_for(kind, captures[1])) return *hint;
  if (captures[1] == "inf" || captures[1] == "nan" || built_in(captures[1])) return "write `" + captures[1] + "`";
  return "a value has a name of its own, without a `.`";
}

// Does the last capture, a body, have an index that the second, a target, lacks?
bool sums(const std::vector<std::string>& captures) {
  const std::string left = captures[1] + (captures.size() > 3 ? " " + captures[2] : "");
  const Tokens target = tokens_around(left, 0, 0), body = tokens_around(captures.back(), 0, 0);
  int depth = 0;
  for (const Token& token : body) {
    depth += (token.text == "[") - (token.text == "]");
    const bool index = depth > 0 && is_word(token.text) && token.text[0] >= 'a';
    if (index && std::none_of(target.begin(), target.end(), [&](const Token& t) { return t.text == token.text; }))
      return true;
  }
  return false;
}

// {0}, {1}, … are the captures; {call}, {name} and {std} say what is known of the function or the value;
// {agg} and {=} are the aggregation that a body without one was meant to have.
std::string filled(std::string_view text, const std::vector<std::string>& captures) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest.size() > 2 && rest[0] == '{' && is_digit(rest[1]) && rest[2] == '}' &&
        static_cast<std::size_t>(rest[1] - '0') < captures.size()) {
      out += captures[static_cast<std::size_t>(rest[1] - '0')];
      at += 3;
    } else if (rest.size() > 3 && rest.starts_with("{^") && is_digit(rest[2])) {  // in capitals
      for (const char c : captures.at(static_cast<std::size_t>(rest[2] - '0')))
        out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
      at += 4;
    } else if (rest.starts_with("{call}")) {
      out += called(captures);
      at += 6;
    } else if (rest.starts_with("{name}")) {
      out += named(captures);
      at += 6;
    } else if (rest.starts_with("{agg}")) {
      out += sums(captures) ? "`+( )` adds over the indices that the left side lacks" : "`=( )` assigns";
      at += 5;
    } else if (rest.starts_with("{=}")) {
      out += sums(captures) ? "+" : "=";
      at += 3;
    } else if (rest.starts_with("{std}")) {
      if (const auto found = import_of(captures[0])) out += "; " + *found;
      at += 5;
    } else {
      out += text[at++];
    }
  }
  return out;
}

bool is_part(std::string_view text, std::size_t at) {
  return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
}

// The sizes that the heading of the function around a place names.
std::vector<std::string> sizes_around(std::string_view text, std::size_t at) {
  std::vector<std::string> sizes;
  const std::size_t heading = text.substr(0, at).rfind("function");
  if (heading == std::string_view::npos || text.substr(at).starts_with("function")) return sizes;
  const std::string_view head = text.substr(heading, text.find('{', heading) - heading);
  int depth = 0;
  for (std::size_t k = 0; k < head.size(); ++k) {
    depth += (head[k] == '[') - (head[k] == ']');
    if (depth == 0 || head[k] < 'A' || head[k] > 'Z' || is_part(head, k - 1)) continue;
    std::size_t end = k;
    while (is_part(head, end)) ++end;
    sizes.emplace_back(head.substr(k, end - k));
  }
  return sizes;
}

// A statement that shows how it is written has a size that is there: of a function without N, its first.
std::string with_size_around(std::string hint, std::string_view text, std::size_t at) {
  const std::vector<std::string> sizes = sizes_around(text, at);
  if (sizes.empty() || std::find(sizes.begin(), sizes.end(), "N") != sizes.end() ||
      hint.find("function ") != std::string::npos)
    return hint;
  for (std::size_t k = hint.find('N'); k != std::string::npos; k = hint.find('N', k + 1)) {
    if (k == 0 || is_part(hint, k - 1) || is_part(hint, k + 1)) continue;
    hint.replace(k, 1, sizes.front());
    k += sizes.front().size() - 1;
  }
  return hint;
}

}  // namespace

std::optional<Recognised> idiom_at(
    std::string_view text, std::size_t begin_of_statement, std::size_t offset, std::string_view expected) {
  const Tokens tokens = tokens_around(text, begin_of_statement, offset);
  const auto stopped = static_cast<std::size_t>(std::find_if(tokens.begin(), tokens.end(), [&](const Token& t) {
    return t.begin + t.text.size() > offset;
  }) - tokens.begin());
  Match match(text, tokens, stopped);
  for (const Idiom& row : idioms()) {
    if ((row.kind != Idiom::Kind::Syntax && row.kind != Idiom::Kind::Item) ||
        expected.find(row.expected) == std::string_view::npos)
      continue;
    const std::vector<std::string_view> pattern = words_of(row.pattern);
    for (std::size_t begin = 0; begin <= stopped && begin < tokens.size(); ++begin) {
      if (!match.at(pattern, begin)) continue;
      const Token& last = tokens[match.last - 1];
      const bool heading = row.pattern.starts_with("function ") || row.pattern.starts_with("- > ");
      return Recognised{filled(row.what, match.captures),
          with_size_around(filled(row.hint, match.captures), text, begin_of_statement), tokens[begin].begin,
          heading ? tokens[std::min(stopped, match.last - 1)].begin : tokens[begin].begin,
          last.begin + last.text.size(), row.kind == Idiom::Kind::Item};
    }
  }
  return std::nullopt;
}

std::optional<std::string> hint_for(Idiom::Kind kind, std::string_view name) {
  return kind == Idiom::Kind::Function ? function_hint(name) : row_for(kind, name);
}

}  // namespace tilec::lang
