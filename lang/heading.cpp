#include "lang/heading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

namespace tilec::lang {

std::optional<std::string> called_as(std::string_view heading, std::vector<std::string> plain,
    std::map<std::string, std::string> named, const RankOf& rank) {
  const std::size_t open = heading.find('('), angle = heading.find('<');
  std::vector<std::pair<std::string, std::string>> parameters;
  const auto trimmed = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of(' '), text.size()));
  };
  if (angle < open)
    for (std::string_view rest = heading.substr(angle + 1, heading.find('>', angle) - angle - 1); !rest.empty();) {
      const std::size_t brace = rest.find('{'), comma = rest.find(','),
                        end = std::min(rest.find(',', brace < comma ? rest.find('}') : 0), rest.size());
      const std::string_view part = trimmed(rest.substr(0, end));
      const std::size_t equals = part.find('=');
      parameters.emplace_back(part.substr(0, equals), equals == std::string_view::npos ? "" : part.substr(equals + 1));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  std::vector<std::string> inputs;
  std::vector<std::size_t> ranks;
  int depth = 0;
  for (std::size_t at = open + 1, from = at; at < heading.size() && depth >= 0; ++at) {
    depth += (heading[at] == '[') - (heading[at] == ']');
    if (depth > 0 || (heading[at] != ',' && heading[at] != ')')) continue;
    const std::string_view part = trimmed(heading.substr(from, at - from));
    const std::string_view name = part.substr(0, part.find('['));
    inputs.emplace_back(name.substr(name.rfind(' ') == std::string_view::npos ? 0 : name.rfind(' ') + 1));
    const auto commas = static_cast<std::size_t>(std::count(part.begin(), part.end(), ','));
    ranks.push_back(part.find('[') == std::string_view::npos ? 0 : commas + 1);
    from = at + 1;
    if (heading[at] == ')') break;
  }
  const auto same = [](std::string_view a, std::string_view b) {
    return a.size() == b.size() &&
        std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return (x | 32) == (y | 32); });
  };
  for (const std::string& input : inputs)              // an input by its name, where it comes next
    for (auto at = named.begin(); at != named.end(); ++at)
      if (plain.size() < inputs.size() && same(at->first, input) && inputs[plain.size()] == input) {
        plain.push_back(at->second);
        named.erase(at);
        break;
      }
  std::vector<std::string> values;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const auto given = std::find_if(named.begin(), named.end(), [&](const auto& each) {
      return same(each.first, parameters[k].first) ||
          (parameters[k].first.size() == 1 && same(each.first.substr(0, 1), parameters[k].first));
    });
    const bool extra = given == named.end() && plain.size() > inputs.size() &&
        plain[inputs.size()].find_first_not_of("0123456789.-") == std::string::npos;
    if (given == named.end() && !extra && parameters[k].second.empty()) return std::nullopt;
    if (given == named.end() && !extra) continue;
    values.push_back(parameters[k].first + "=" + (extra ? plain[inputs.size()] : given->second));
    if (extra) plain.erase(plain.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
    else named.erase(given);
  }
  if (values.empty() || !named.empty() || plain.size() > inputs.size()) return std::nullopt;
  for (std::size_t k = 0; k < plain.size(); ++k)
    if (const auto given = rank(plain[k]); given && ranks[k] != 0 && *given != ranks[k]) return std::nullopt;
  return fmt::format("<{}>({})", fmt::join(values, ", "), fmt::join(plain, ", "));
}

std::optional<std::string> moving(
    std::string_view foreign, std::size_t rank, std::int64_t axis, const std::string& shift) {
  const bool stacks = foreign == "stack", joins = foreign == "cat" || foreign == "concat" || foreign == "concatenate";
  const auto axes = static_cast<std::int64_t>(stacks ? rank + 1 : rank);
  if (axis < 0) axis += axes;
  if (axis < 0 || axis >= axes) return std::nullopt;
  if (stacks || joins) return fmt::format("{}{}", stacks ? "stack" : "concat", axis == 0 ? "" : fmt::format("<{}>", axis));
  std::vector<std::string> values;
  if (!shift.empty()) values.push_back(shift);
  if (rank > 1) values.insert(values.end(), 2, std::to_string(axis));  // the first and the last of its dimensions
  return fmt::format("{}{}", foreign, values.empty() ? "" : fmt::format("<{}>", fmt::join(values, ", ")));
}

}  // namespace tilec::lang
