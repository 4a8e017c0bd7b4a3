#include "lang/repair/rewrites.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tilec::lang::repair {
namespace {

std::string transpose(Draft& s, const std::string& name, const Sizes& sizes) {
  const std::string result = s.fresh(name + "T"), i = s.fresh("i", true), j = s.fresh("j", true);
  s.put_before(result, {j, i}, {sizes[1], sizes[0]}, fmt::format("=({}[{}, {}])", name, i, j));
  return result;
}

}  // namespace

bool members(Draft& s) {
  for (std::size_t i = 0; i + 2 < s.size(); ++i) {
    const Sizes* sizes = s.word(i) ? s.shape(s[i]) : nullptr;
    if (!sizes) continue;
    if (s.is(i + 1, ".") && s.is(i + 2, "shape") && s.is(i + 3, "[") && i + 5 < s.size() && is_number(s[i + 4]) &&
        s.is(i + 5, "]")) {
      const std::size_t d = s[i + 4][0] - std::size_t{'0'};
      if (s[i + 4].size() == 1 && d < sizes->size()) return s.replace(i, i + 6, (*sizes)[d]);
    }
    const bool transposed = s.is(i + 1, ".") && (s.is(i + 2, "T") || s.is(i + 2, "mT"));
    if (transposed && sizes->size() == 2) return s.replace(i, i + 3, transpose(s, std::string(s[i]), *sizes));
    if (i > 1 && s.is(i - 1, "(") && s.is(i - 2, "transpose") && s.is(i + 1, ")") && sizes->size() == 2)
      return s.replace(i - 2, i + 2, transpose(s, std::string(s[i]), *sizes));
  }
  return false;
}

namespace {

struct Sliced { std::string read, index, size; };
std::optional<Sliced> sliced(Draft& s, std::size_t from, std::size_t to, const std::string& size) {
  std::vector<std::string> parts(1);
  for (std::size_t k = from; k < to; ++k) {
    if (s.is(k, ":")) parts.emplace_back();
    else parts.back() += std::string(s[k]);
  }
  const auto from_end = [&](const std::string& text) {
    return text.starts_with("-") ? size + " - " + text.substr(1) : text;
  };
  if (parts.size() == 1) return Sliced{from_end(parts[0]), "", ""};
  const std::string index = s.fresh("i", true), step = parts.size() > 2 ? parts[2] : "";
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

}  // namespace

bool slices(Draft& s) {
  for (std::size_t i = s.equals + 1; i + 1 < s.size(); ++i) {
    const Sizes* sizes = s.word(i) && s.is(i + 1, "[") ? s.shape(s[i]) : nullptr;
    if (!sizes) continue;
    const std::size_t close = s.closing(i + 1);
    if (close == s.size()) continue;
    const auto parts = s.list(i + 1);
    const auto any = [&](std::string_view mark) {
      for (std::size_t k = i + 2; k < close; ++k)
        if (s[k] == mark) return true;
      return false;
    };
    const bool numbers = std::all_of(parts.begin(), parts.end(),
        [&](const auto& part) { return is_number(s[part.second - 1]) && part.second - part.first <= 2; });
    if (parts.empty() || !(numbers || any(":") || any("None") || any("newaxis") || any("."))) continue;
    const auto added = static_cast<std::size_t>(std::count_if(parts.begin(), parts.end(),
        [&](const auto& part) { return s.is(part.first, "None") || s.is(part.first, "newaxis"); }));
    std::vector<std::string> indices, reads;
    Sizes left;
    std::size_t d = 0;
    for (const auto& [from, to] : parts) {
      if (s.is(from, "None") || s.is(from, "newaxis")) {
        indices.emplace_back("0"), left.emplace_back("1");
        continue;
      }
      if (s.is(from, ".")) {                             // `...`: whole dimensions, as many as are left
        for (std::size_t left_out = sizes->size() + added + 1 - std::min(sizes->size() + added + 1, parts.size());
            left_out > 0 && d < sizes->size(); --left_out, ++d)
          indices.push_back(s.fresh("i", true)), reads.push_back(indices.back()), left.push_back((*sizes)[d]);
        continue;
      }
      if (d >= sizes->size()) return false;
      const auto part = sliced(s, from, to, (*sizes)[d++]);
      if (!part) return false;
      reads.push_back(part->read);
      if (!part->index.empty()) indices.push_back(part->index), left.push_back(part->size);
    }
    for (; d < sizes->size(); ++d)
      indices.push_back(s.fresh("i", true)), reads.push_back(indices.back()), left.push_back((*sizes)[d]);
    if (s.has_element()) return false;
    return s.compute(i, close + 1, "Part", indices, left, fmt::format("=({}[{}])", s[i], fmt::join(reads, ", ")));
  }
  return false;
}

namespace {

struct Wrapped { std::string form, index, size; bool forward; };
// `(i + 1) % N` or `mod(i - 1, N)`, an index with a number added.
std::optional<Wrapped> remainder(const Draft& s, std::size_t from, std::size_t to) {
  std::size_t first = from + 1, last = from, size = 0;
  if (s.is(from, "(") && s.is(s.closing(from) + 1, "%")) last = s.closing(from), size = last + 2;
  else if (s.is(from, "mod") && s.is(from + 1, "(") && s.list(from + 1).size() == 2) {
    const auto parts = s.list(from + 1);
    first = parts[0].first, last = parts[0].second, size = parts[1].first;
    if (parts[1].second != size + 1) return std::nullopt;
  } else return std::nullopt;
  const std::size_t end = s.is(from, "mod") ? size + 2 : size + 1;
  if (end != to || last - first != 3 || !s.word(first) || !is_index_name(s[first]) ||
      !is_one_of(s[first + 1], "+-") || !is_number(s[first + 2]) || !s.word(size))
    return std::nullopt;
  return Wrapped{s.slice(first, last), std::string(s[first]), std::string(s[size]), s.is(first + 1, "+")};
}

}  // namespace

bool wraps(Draft& s) {
  for (std::size_t i = s.equals + 1; i + 1 < s.size(); ++i) {
    if (!s.word(i) || !s.is(i + 1, "[")) continue;
    const auto parts = s.list(i + 1);
    for (std::size_t d = 0; d < parts.size(); ++d) {
      const auto wrapped = remainder(s, parts[d].first, parts[d].second);
      if (!wrapped) continue;
      std::vector<std::string> indices, inside, outside;
      Sizes left;
      for (std::size_t e = 0; e < parts.size(); ++e) {
        const std::string text = e == d ? wrapped->index : s.slice(parts[e].first, parts[e].second);
        if (!is_index_name(text) ||
            text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos)
          return false;
        const auto known = e == d ? std::optional(wrapped->size) : s.index_size(text);
        if (!known || std::find(indices.begin(), indices.end(), text) != indices.end()) return false;
        indices.push_back(text), left.push_back(*known);
        inside.push_back(e == d ? wrapped->form : text);
        outside.push_back(
            e == d ? fmt::format("{} {} {}", wrapped->form, wrapped->forward ? "-" : "+", wrapped->size) : text);
      }
      const std::string tensor(s[i]), round = s.fresh("Round"), shifted = s.fresh("Shifted");
      s.put_before(round, indices, left, fmt::format("=({}[{}])", tensor, fmt::join(outside, ", ")));
      s.put_before(shifted, indices, left, fmt::format("=({}[{}]) default {}", tensor, fmt::join(inside, ", "), round));
      return s.replace(i, s.closing(i + 1) + 1, fmt::format("{}[{}]", shifted, fmt::join(indices, ", ")));
    }
  }
  return false;
}

namespace {

// `X[max(i - 1, 0)]`: positions are computed first.
bool computed(Draft& s, std::size_t from, std::size_t to) {
  const auto left = s.kept();
  std::vector<std::string> indices;
  Sizes sizes;
  for (const auto& [index, size] : left) {
    bool used = false;
    for (std::size_t k = from; k < to; ++k) used |= s[k] == index;
    if (used && size.empty()) return false;
    if (used) indices.push_back(index), sizes.push_back(size);
  }
  if (indices.empty()) return false;
  const std::string name = s.fresh("Positions");
  s.put_before(name, indices, sizes, fmt::format("=(i32({}))", s.slice(from, to)));
  return s.replace(from, to, fmt::format("{}[{}]", name, fmt::join(indices, ", ")));
}

bool gathered(Draft& s, std::size_t i, const std::vector<Range>& parts) {
  const std::size_t from = parts[0].first, to = parts[0].second;
  const std::string name = s.fresh("Rows"), tensor(s[i]), positions(s[from]),
                    inner = s.slice(from + 2, to - 1), rest = s.slice(to, s.closing(i + 1));
  s.before.push_back(fmt::format("{} = gather({}, {});", name, tensor, positions));
  const Sizes *a = s.shape(tensor), *b = s.shape(positions);
  if (a && b && !a->empty()) {
    Sizes sizes = *b;
    sizes.insert(sizes.end(), a->begin() + 1, a->end());
    s.shapes[name] = sizes;
  }
  return s.replace(i, s.closing(i + 1) + 1, fmt::format("{}[{}{}]", name, inner, rest));
}

bool chosen(Draft& s, std::size_t from, std::size_t to) {
  std::size_t first = s.equals + 1, last = s.size();
  const bool outermost =
      (s.is(first, "=") || s.is(first, "+")) && s.is(first + 1, "(") && s.closing(first + 1) + 1 == last;
  if (outermost) first += 2, --last;
  else if (s.is(first, ">") || s.is(first, "<")) return false;
  const std::string index = s.fresh("c", !s.words.contains("c") ? false : true), position = s.slice(from, to);
  const std::string body = s.text.substr(s.tokens[first].begin, s.tokens[from].begin - s.tokens[first].begin) + index +
      s.text.substr(s.tokens[to - 1].end(), s.tokens[last - 1].end() - s.tokens[to - 1].end());
  return s.replace(s.equals + 1, s.size(), fmt::format("+({} == {} ? {} : 0.0)", position, index, body));
}

}  // namespace

bool gathers(Draft& s) {
  if (!s.has_element()) return false;
  for (std::size_t i = s.equals + 1; i + 3 < s.size(); ++i) {
    if (!s.word(i) || !s.is(i + 1, "[")) continue;
    const auto parts = s.list(i + 1);
    for (std::size_t d = 0; d < parts.size(); ++d) {
      const auto [from, to] = parts[d];
      if (d == 0 && s.word(from) &&
          (s.is(from, "max") || s.is(from, "min") || s.is(from, "clamp") || s.is(from, "abs")) && s.is(from + 1, "(") &&
          s.closing(from + 1) + 1 == to && computed(s, from, to))
        return true;
      if (!s.word(from) || !s.is(from + 1, "[") || s.closing(from + 1) + 1 != to) continue;
      return d == 0 ? gathered(s, i, parts) : chosen(s, from, to);
    }
  }
  return false;
}

}  // namespace tilec::lang::repair
