// The sections of the page, each a piece of HTML.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/page.h"
#include "codegen/model/predict.h"
#include "codegen/origin.h"

namespace tilec::cli::report {

using codegen::Origin;
using codegen::Origins;

// The places of the text that something came from, numbered 1, 2, … in their order: elements with the same number
// light up together.
class Links {
 public:
  explicit Links(const Origin& used);
  bool has(std::size_t place) const { return numbers_.contains(place); }
  // Attributes of an element of this origin; empty: it came from no place of the text.
  std::string attributes(const Origin& origin) const;

 private:
  std::map<std::size_t, std::size_t> numbers_;
};

struct Row {                                             // a launch
  std::string part, name, leaves;
  Origin origin;
  double operations = 0;
  bool exact = true;                                     // else they are at most so many
  codegen::model::Prediction predicted;
  std::optional<double> measured = std::nullopt;         // milliseconds
};
std::vector<Row> rows_of(const Report& report, const Origins& origins);
std::vector<Origin> origins_of_groups(const Origins& origins, const codegen::Stages& stages);  // of a plan

// from the text to the code, side by side
std::string panes(const Report& report, const Origins& origins, const Links& links);
std::string contractions(const Report& report, const Origins& origins, const Links& links);
std::string launches(const Report& report, const std::vector<Row>& rows, const Links& links);  // roofline and table

std::string figure(const std::string& svg, const std::string& caption);
std::string milliseconds(double value);                  // `12.3 µs`
std::string bar(double part);                            // a cell of a table, of a whole of 1

}  // namespace tilec::cli::report
