// Comments could be the grammar's skipper, and unknown characters its failures. They are a pass of their own because
// the formatter needs the comments, and because `A % 2` should say that `%` is no character of Tile, not that `;` was
// expected.

#include "lang/lexis.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdlib>

#include "lang/idiom.h"
#include "lang/messages.h"

namespace tilec::lang {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_mark(char c) { return std::string_view("-=!<>[]+*/(){},;:?&|^~").find(c) != std::string_view::npos; }

// Characters that are copied from web pages and documents, and seen by nobody.
struct Invisible { std::string_view character, name; bool is_blank; };
constexpr Invisible invisibles[] = {
    {"\u00A0", "U+00A0, a no-break space,", true},
    {"\u2007", "U+2007, a figure space,", true},
    {"\u2009", "U+2009, a thin space,", true},
    {"\u202F", "U+202F, a narrow no-break space,", true},
    {"\u3000", "U+3000, an ideographic space,", true},
    {"\u2028", "U+2028, a line separator,", true},
    {"\u00AD", "U+00AD, a soft hyphen,", false},
    {"\u200B", "U+200B, a zero-width space,", false},
    {"\u200C", "U+200C, a zero-width non-joiner,", false},
    {"\u200D", "U+200D, a zero-width joiner,", false},
    {"\u200E", "U+200E, a left-to-right mark,", false},
    {"\u200F", "U+200F, a right-to-left mark,", false},
    {"\u2060", "U+2060, a word joiner,", false},
    {"\uFEFF", "U+FEFF, a byte order mark,", false},
};

char at(std::string_view text, std::size_t i) { return i < text.size() ? text[i] : '\0'; }

std::size_t word_end(std::string_view text, std::size_t i) {
  while (is_word(at(text, i))) ++i;
  return at(text, i) == '\'' ? i + 1 : i;
}

std::size_t digits_end(std::string_view text, std::size_t i) {
  while (is_digit(at(text, i))) ++i;
  return i;
}

// INT or FLOAT: `2`, `2.5`, `2e-3`. In `2e` and `2e+x` the number is `2`.
std::size_t number_end(std::string_view text, std::size_t i) {
  i = digits_end(text, i);
  if (at(text, i) == '.' && is_digit(at(text, i + 1))) i = digits_end(text, i + 1);
  if (at(text, i) == 'e' || at(text, i) == 'E') {
    const std::size_t sign = i + 1 + (at(text, i + 1) == '+' || at(text, i + 1) == '-');
    if (is_digit(at(text, sign))) i = digits_end(text, sign);
  }
  return i;
}

std::string trimmed(std::string_view comment) {
  while (!comment.empty() && is_blank(comment.back())) comment.remove_suffix(1);
  return std::string(comment);
}

// The end of the UTF-8 sequence at i, so that one letter is one error; a stray byte is one byte long.
std::size_t character_end(std::string_view text, std::size_t i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  const std::size_t length = lead >= 0xF0 && lead < 0xF8 ? 4
      : lead >= 0xE0 && lead < 0xF0                      ? 3
      : lead >= 0xC0 && lead < 0xE0                      ? 2
                                                         : 1;
  for (std::size_t k = 1; k < length; ++k)
    if ((static_cast<unsigned char>(at(text, i + k)) & 0xC0) != 0x80) return i + 1;
  return i + length;
}

class Scan {
 public:
  Scan(const Source& source, std::uint32_t number, Diagnostics& diagnostics)
      : text_(source.text), number_(number), diagnostics_(diagnostics) {
    out_.text = source.text;
  }

  Lexis run() {
    while (i_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  std::string_view text_;
  std::uint32_t number_;
  Diagnostics& diagnostics_;
  Lexis out_;
  std::size_t i_ = 0, line_start_ = 0, statement_ = 0;
  bool code_on_line_ = false;                          // a token ended on this line
  bool empty_line_ = true;                             // nothing at all on this line so far

  Span span(std::size_t begin, std::size_t end) const {
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), number_};
  }

  void step() {
    const char c = text_[i_];
    if (c == '\n') return new_line();
    if (is_blank(c)) {
      ++i_;
      return;
    }
    if (c == '/' && (at(text_, i_ + 1) == '/' || at(text_, i_ + 1) == '*')) return comment();
    empty_line_ = false;
    code_on_line_ = true;
    if (is_letter(c)) word(i_);
    else if ((c == '#' || c == '$') && is_letter(at(text_, i_ + 1))) word(i_ + 1);
    else if (is_digit(c) || (c == '.' && is_digit(at(text_, i_ + 1)))) number();
    else if (c == '"') string();
    else if (is_mark(c) && !(c == '!' && at(text_, i_ + 1) != '=')) {
      ++i_;
      if (c == ';' || c == '{' || c == '}') statement_ = i_;
    }
    else unknown();
  }

  // With the `...` of a pack, which stands nowhere else, or the `.` behind a prefix; where none may stand, the grammar
  // stops.
  void word(std::size_t begin) {
    i_ = word_end(text_, begin);
    const char next = at(text_, i_ + 1);
    const bool another = is_letter(next) || ((next == '#' || next == '$') && is_letter(at(text_, i_ + 2)));
    if (text_.substr(i_, 3) == "...") i_ += 3;
    else if (at(text_, i_) == '.' && another) ++i_;
  }

  void new_line() {
    if (empty_line_ &&
        (out_.trivia.empty() || !out_.trivia.back().text.empty() || out_.trivia.back().span.end < line_start_))
      out_.trivia.push_back({"", span(i_, i_ + 1), true});
    else if (empty_line_)
      out_.trivia.back().span.end = static_cast<std::uint32_t>(i_ + 1);
    ++i_;
    line_start_ = i_;
    empty_line_ = true;
    code_on_line_ = false;
  }

  void comment() {
    const bool block = text_[i_ + 1] == '*';
    const std::size_t close = block ? text_.find("*/", i_ + 2) : text_.find('\n', i_);
    const std::size_t end = close == std::string_view::npos ? text_.size() : block ? close + 2 : close;
    if (block && close == std::string_view::npos) {
      fault(i_, i_ + 2, end);
      diagnostics_.report(span(i_, i_ + 2), messages::unclosed_comment)
          .hint("close it with `*/`; comments do not nest");
    } else {
      out_.trivia.push_back({trimmed(text_.substr(i_, end - i_)), span(i_, end), !code_on_line_});
    }
    blank(i_, end);
    i_ = end;
    empty_line_ = false;
  }

  void number() {
    const std::size_t begin = i_;
    std::size_t end = text_[i_] == '.' ? i_ : number_end(text_, i_);
    bool faulty = end == begin;
    while (at(text_, end) == '.') {                    // `1.`, `.5`, `1.2.3e4`
      faulty = true;
      end = number_end(text_, end + 1);
    }
    const std::string_view spelled = text_.substr(begin, end - begin);
    i_ = end;
    if (faulty) {
      diagnostics_.report(span(begin, end), messages::malformed_number, spelled)
          .hint("a number has digits on both sides of its point: `0.5`, `1.0`");
      return replace_number(begin, end);
    }
    if (spelled.find_first_not_of("0123456789") != std::string_view::npos) {
      if (!real_of(spelled)->too_large) return;
      diagnostics_.report(span(begin, end), messages::does_not_fit, fmt::format("`{}`", shortened(spelled)), "f64")
          .hint("the largest f64 is about 1.797e308; infinity is `inf`");
      return replace_number(begin, end);
    }
    const std::size_t zeros = std::min(spelled.find_first_not_of('0'), spelled.size());
    const std::string_view significant = spelled.substr(zeros);
    if (significant.size() > 20 || (significant.size() == 20 && significant > "18446744073709551615")) {
      diagnostics_.report(span(begin, end), messages::integer_too_large, shortened(spelled))
          .hint(in_brackets(begin) ? "indices and sizes end at 9223372036854775807" : as_float(spelled));
      replace_number(begin, end);
    }
  }

  bool in_brackets(std::size_t before) const {
    int closed = 0;
    while (before-- > 0 && at(text_, before) != ';' && at(text_, before) != '{') {
      if (at(text_, before) == ']') ++closed;
      if (at(text_, before) == '[' && closed-- == 0) return true;
    }
    return false;
  }

  // Of an integer that 64 bits do not hold.
  static std::string as_float(std::string_view integer) {
    const Real real = *real_of(integer);
    if (real.too_large) return "no type has it: the largest f64 is about 1.797e308";
    return integer.size() <= 25 ? fmt::format("write `{}.0`", integer) : fmt::format("write `{}`", real.value);
  }

  // Leaves some number in the place of a faulty one, so that the grammar has nothing to add.
  void replace_number(std::size_t begin, std::size_t end) {
    out_.faults.push_back(span(begin, end));
    blank(begin, end);
    out_.text[begin] = '0';
  }

  void string() {
    const std::size_t close = text_.find_first_of("\"\n", i_ + 1);
    if (close != std::string_view::npos && text_[close] == '"') {
      i_ = close + 1;
      return;
    }
    const std::size_t end = close == std::string_view::npos ? text_.size() : close;
    diagnostics_.report(span(i_, end), messages::unclosed_string).hint("close it with `\"`; there are no escapes");
    fault(i_, end, end);
    i_ = end;
  }

  void unknown() {
    const std::size_t begin = i_, end = character_end(text_, i_);
    i_ = end;
    if (out_.faults.size() > 50) return fault(begin, end, end);  // not a program: enough has been said
    const std::string_view character = text_.substr(begin, end - begin);
    const auto first = static_cast<unsigned char>(character.front());
    const bool visible = (first >= 0x20 && first < 0x7F) || character.size() > 1;
    const auto invisible = std::ranges::find(invisibles, character, &Invisible::character);
    const std::string shown = invisible != std::end(invisibles) ? std::string(invisible->name)
        : visible                                               ? fmt::format("`{}`", character)
                                                                : fmt::format("the byte 0x{:02X}", first);
    if (const auto idiom = idiom_at(text_, statement_, begin)) return foreign(*idiom, begin, end);
    fault(begin, end, end);
    auto entry = diagnostics_.report(span(begin, end), messages::unknown_character, shown);
    if (invisible != std::end(invisibles))
      entry.hint(invisible->is_blank ? "write a plain blank in its place" : "it is not seen: delete it");
    if (character == "_") entry.hint("a name begins with a letter");
    if (character == "." || character == "'") entry.hint("a name is letters, digits and `_`, then at most one `'`");
    if (character == "#" || character == "$") entry.hint("a mark stands directly before a word: `#a`, `$N`");
  }

  // What the idiom covers is read no further, unless statements end in it; nor is the rest of what was meant for a
  // comment.
  void foreign(const Recognised& idiom, std::size_t begin, std::size_t end) {
    const std::size_t line = std::min(text_.find('\n', begin), text_.size());
    const std::size_t last = std::min(idiom.end, line);
    const std::size_t first = idiom.begin < line_start_ ? begin : idiom.begin;
    diagnostics_.report(span(first, last), messages::foreign, idiom.what).hint(idiom.hint);
    const bool whole_line = idiom.is_item || text_[begin] == '#';
    const std::size_t stop = whole_line                                                    ? line
        : text_.substr(begin, last - begin).find_first_of(";{}") == std::string_view::npos ? std::max(last, end)
                                                                                           : end;
    out_.faults.push_back(span(begin, end));
    blank(whole_line ? first : begin, stop);
    i_ = stop;
  }

  void fault(std::size_t begin, std::size_t end, std::size_t blank_to) {
    out_.faults.push_back(span(begin, end));
    blank(begin, blank_to);
  }

  void blank(std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k)
      if (out_.text[k] != '\n') out_.text[k] = ' ';
  }
};

}  // namespace

Lexis separate(const Source& source, std::uint32_t number, Diagnostics& diagnostics) {
  return Scan(source, number, diagnostics).run();
}

std::optional<Real> real_of(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size() || fault == std::errc::invalid_argument) return std::nullopt;
  if (fault != std::errc::result_out_of_range) return Real{value};
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", locale_t{});  // the caller's may write 1,5
  // tells too large from too small, which from_chars does not
  value = strtod_l(std::string(text).c_str(), nullptr, plain);
  return Real{value, std::isinf(value)};
}

std::string shortened(std::string_view number) {
  if (number.size() <= 40) return std::string(number);
  return fmt::format("{}…{} ({} characters)", number.substr(0, 10), number.substr(number.size() - 5), number.size());
}

std::size_t token_end(std::string_view text, std::size_t i) {
  const char c = at(text, i);
  if (is_letter(c)) return word_end(text, i);
  if (c == '#' || c == '$') return word_end(text, i + 1);
  if (is_digit(c)) return number_end(text, i);
  if (c == '"') return std::min(text.find('"', i + 1), text.size() - 1) + 1;
  for (const std::string_view mark : {"->", "==", "!=", "<=", ">=", "<<", ">>", "[[", "]]"})
    if (text.substr(i, 2) == mark) return i + 2;
  if (text.substr(i, 3) == "...") return i + 3;
  return std::min(i + 1, text.size());
}

}  // namespace tilec::lang
