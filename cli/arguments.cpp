#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <vector>

#include "cli/near_file.h"
#include "lang/idiom.h"
#include "lang/lexis.h"
#include "lang/nearest.h"
#include "runtime/error.h"
#include "runtime/npy.h"

namespace tilec::cli {

using lang::DType;

// `2x3xf32`, `2x3`, `f32` (a scalar).
std::optional<Form> parse_form(std::string_view text) {
  Form form;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('x'));
    const bool last = part.size() == text.size();
    std::int64_t extent = 0;
    const auto [end, fault] = std::from_chars(part.data(), part.data() + part.size(), extent);
    if (fault == std::errc() && end == part.data() + part.size() && extent >= 0) form.shape.push_back(extent);
    else if (last && lang::dtype_named(part)) form.dtype = lang::dtype_named(part);
    else return std::nullopt;
    if (last) return form;
    text.remove_prefix(part.size() + 1);
  }
  return std::nullopt;
}

namespace {

using runtime::Tensor;
namespace messages = lang::messages;

constexpr const char* forms =
    "values are a file (`x.npy`), a number, `2x3xf32=[1 2 3][4 5 6]`, `random:2x3xf32`, `random:8xi32:0..9`, `arange:6`, `ones:4` or `zeros:4`";

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw runtime::argument_error(messages::bad_value, name, why).hint(forms);
}

constexpr std::size_t any_count = std::numeric_limits<std::size_t>::max();

struct Scalar {
  bool is_integer = false;
  std::int64_t integer = 0;
  double real = 0;                                       // -0.0 for `-0`: floats have it
  bool large = false;                                    // Argument's
  bool too_large = false;                                // for any f64
  bool beyond = false;                                   // written as an integer that 64 bits do not hold: `real` is
                                                         // near it
};

std::optional<Scalar> parse_number(std::string_view text) {
  if (text == "true" || text == "false") return Scalar{true, text == "true", text == "true" ? 1.0 : 0.0};
  if (text.starts_with('+')) text.remove_prefix(1);
  Scalar scalar;
  const char* const stop = text.data() + text.size();
  if (const auto [end, fault] = std::from_chars(text.data(), stop, scalar.integer);
      fault == std::errc() && end == stop) {
    scalar.is_integer = true;
    scalar.real = scalar.integer == 0 && text.starts_with('-') ? -0.0 : static_cast<double>(scalar.integer);
    return scalar;
  }
  std::uint64_t large = 0;                               // the upper half of u64, as its bits
  if (const auto [end, fault] = std::from_chars(text.data(), stop, large); fault == std::errc() && end == stop)
    return Scalar{true, static_cast<std::int64_t>(large), static_cast<double>(large), true};
  const std::optional<lang::Real> real = lang::real_of(text);
  if (!real) return std::nullopt;
  scalar.real = real->value;
  scalar.too_large = real->too_large;
  scalar.beyond = text.find_first_not_of("-0123456789") == std::string_view::npos;
  return scalar;
}

[[noreturn]] void refuse_number(const std::string& name, std::string_view text, DType type, bool may_be_float = false) {
  runtime::RuntimeError fault = runtime::argument_error(
      messages::does_not_fit, fmt::format("{}, given for `{}`,", lang::shortened(text), name), lang::name(type));
  if (may_be_float && text.size() < 40) fault.hint(fmt::format("give a float: `{}={}.0`", name, text));
  throw std::move(fault);
}

// Of an array called `name`; the number is written as `text`.
void set(const std::string& name, poly::Array& array, std::size_t n, const Scalar& value, std::string_view text) {
  const bool as_integer = value.is_integer && value.integer != 0;
  const poly::Number number = as_integer ? poly::Number{value.large ? DType::U64 : DType::I64, value.integer, 0}
                                         : poly::Number{DType::F64, 0, value.real};
  if (value.too_large || !runtime::holds(array.dtype, number) || (value.beyond && !lang::is_float(array.dtype)))
    refuse_number(name, text, array.dtype);
  const poly::Number stored = poly::convert(number, array.dtype);
  if (lang::is_float(array.dtype)) array.reals[n] = stored.real;
  else array.integers[n] = stored.integer;
}

poly::Array empty_array(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) {
  const auto bytes = runtime::byte_count(name, DType::F64, shape);
  poly::Array array{dtype, shape, {}, {}};
  const auto count = static_cast<std::size_t>(bytes / 8);
  try {
    if (lang::is_float(dtype)) array.reals.resize(count);
    else array.integers.resize(count);
  } catch (const std::exception&) {                      // bad_alloc, or more elements than a vector counts
    throw runtime::machine_error(messages::out_of_memory, name, fmt::format("{} bytes", bytes));
  }
  return array;
}

Tensor tensor_of(const std::string& name, const poly::Array& array) {
  Tensor tensor = runtime::allocate(name, array.dtype, array.shape);
  runtime::from_array(array, tensor);
  return tensor;
}

// `[1 2 3][4 5 6]`, `[[1 2 3] [4 5 6]]`, `1,2,3`: brackets and commas are spaces, the shape says the rest.
Tensor parse_elements(const std::string& name, const Form& form, std::string text, DType dtype) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '[' || c == ']' || c == ',' || c == '\t' || c == '\n'; }, ' ');
  poly::Array array = empty_array(name, dtype, form.shape);
  const std::size_t count = static_cast<std::size_t>(array.count());
  std::size_t n = 0;
  for (std::size_t at = text.find_first_not_of(' '); at != std::string::npos; at = text.find_first_not_of(' ', at)) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const std::optional<Scalar> value = parse_number(word);
    if (!value) refuse(name, fmt::format("`{}` is not a number", word));
    if (n < count) set(name, array, n, *value, word);
    ++n;
    at = end;
  }
  if (n != count)
    refuse(
        name, fmt::format("its shape {} has {} elements, {} are written", runtime::print_shape(form.shape), count, n));
  return tensor_of(name, array);
}

// From `low` on and below `high`.
struct Range { Scalar low, high; };

// What `random:` without a range means.
Range usual_range(DType dtype) {
  if (lang::is_float(dtype)) return {{false, 0, -1}, {false, 0, 1}};
  if (dtype == DType::Bool) return {{true, 0, 0}, {true, 2, 2}};
  return lang::is_signed(dtype) ? Range{{true, -8, -8}, {true, 8, 8}} : Range{{true, 0, 0}, {true, 16, 16}};
}

// `0..9`, `-0.5..0.5`
Range parse_range(const std::string& name, std::string_view text, DType dtype) {
  const auto dots = text.find("..");
  const std::optional<Scalar> low = parse_number(text.substr(0, dots)),
                              high =
                                  dots == std::string_view::npos ? std::nullopt : parse_number(text.substr(dots + 2));
  if (!low || !high) refuse(name, fmt::format("`{}` is not a range such as `0..9` or `0.5..2`", text));
  const auto held = [&](std::int64_t value) { return poly::wrap_to(dtype, value) == value; };
  const bool fits = lang::is_float(dtype)
      ? std::isfinite(high->real - low->real)
      : low->is_integer && high->is_integer && held(low->integer) && held(high->integer - 1);
  if (!fits || !(low->real < high->real)) refuse(name, fmt::format("no {} is in `{}`", lang::name(dtype), text));
  return {*low, *high};
}

// Seeded by name, so that another argument changes nothing.
void fill(const Tensor& tensor, std::string_view name, std::uint64_t seed, const Range& range) {
  std::uint64_t mixed = seed + 0x9e3779b97f4a7c15;
  for (const char c : name) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::mt19937_64 generator(mixed);
  poly::Array array = empty_array(std::string(name), tensor.dtype, tensor.shape);
  const double width = range.high.real - range.low.real;
  const std::uint64_t count =
      static_cast<std::uint64_t>(range.high.integer) - static_cast<std::uint64_t>(range.low.integer);
  for (double& x : array.reals)
    x = poly::round_to(tensor.dtype, range.low.real + width * (static_cast<double>(generator() >> 11) * 0x1p-53));
  for (std::int64_t& x : array.integers)
    x = static_cast<std::int64_t>(static_cast<std::uint64_t>(range.low.integer) + generator() % count);
  runtime::from_array(array, tensor);
}

Tensor made(const std::string& name, std::string_view kind, const Form& form, DType dtype, std::string_view range,
    std::uint64_t seed) {
  if (kind == "random") {
    const Tensor tensor = runtime::allocate(name, dtype, form.shape);
    fill(tensor, name, seed, range.empty() ? usual_range(dtype) : parse_range(name, range, dtype));
    return tensor;
  }
  poly::Array array = empty_array(name, dtype, form.shape);
  const std::size_t count = static_cast<std::size_t>(array.count());
  for (std::size_t n = 0; n < count; ++n) {
    const std::int64_t value = kind == "arange" ? static_cast<std::int64_t>(n) : kind == "ones" ? 1 : 0;
    set(name, array, n, Scalar{true, value, static_cast<double>(value)}, std::to_string(value));
  }
  return tensor_of(name, array);
}

Tensor read_file(const std::string& name, const std::string& path, const Reading& reading) {
  const std::optional<ArchivePath> archive = archive_path(path);
  if (reading.files != nullptr) reading.files->push_back(archive ? archive->file : path);
  if (!archive) return runtime::read_npy(path);
  const std::string &file = archive->file, member = archive->member.empty() ? name : archive->member;
  const runtime::Npz npz(file);
  std::string held;
  const std::vector<std::string> names = npz.names();
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (names[k] == member) return npz.read(k);
    if (k < 20) held += fmt::format("{}`{}`", held.empty() ? "" : ", ", names[k]);
    if (k == 20) held += fmt::format(" and {} more", names.size() - 20);
  }
  throw runtime::machine_error(messages::no_member, file, member)
      .hint(held.empty() ? "it is empty" : fmt::format("it holds {}; write `{}={}:…`", held, name, file));
}

// `2,3`, `(2, 3)`, `[2 3]`, `2X3` as `2x3`; empty where there are no numbers.
std::string shape_of(std::string_view text) {
  std::string shape;
  for (std::size_t at = text.find_first_of("0123456789"); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    shape += (shape.empty() ? "" : "x") + std::string(text.substr(at, end - at));
    at = text.find_first_of("0123456789", end);
  }
  return shape;
}

// `3xfloat32` with the type as it is called here.
std::optional<std::string> with_own_type(const std::string& shape) {
  const std::size_t at = shape.find_first_not_of("0123456789x");
  if (at == std::string::npos) return std::nullopt;
  const auto hint = lang::hint_for(lang::Idiom::Kind::Type, shape.substr(at));  // write `f32`
  if (!hint || !hint->starts_with("write `")) return std::nullopt;
  const std::string result = shape.substr(0, at) + hint->substr(7, hint->size() - 8);
  return parse_form(result) ? std::optional(result) : std::nullopt;
}

std::optional<Tensor> tensor_value(
    const std::string& name, const std::string& value, std::optional<DType> declared, const Reading& reading) {
  if (const auto colon = value.find(':'); colon != std::string::npos) {
    const std::string kind = value.substr(0, colon);
    if (kind == "random" || kind == "arange" || kind == "ones" || kind == "zeros") {
      const auto second = value.find(':', colon + 1);
      const std::string shape = value.substr(colon + 1, second - colon - 1),
                        range = second == std::string::npos ? std::string() : value.substr(second + 1);
      const std::optional<Form> form = parse_form(shape);
      if (!form) {
        const std::string plain = shape_of(shape);
        const bool only_marks =
            shape.find_first_not_of("0123456789,xX* ()[]") == std::string::npos && parse_form(plain);
        const auto typed = with_own_type(shape);
        throw runtime::argument_error(
            messages::bad_value, name, fmt::format("`{}` is not a shape such as `2x3xf32`", shape))
            .hint(typed ? fmt::format("write `{}={}:{}{}`", name, kind, *typed, range.empty() ? "" : ":" + range)
                    : only_marks ? fmt::format("write `{}={}:{}`", name, kind, plain)
                                 : forms);
      }
      if (second != std::string::npos && (kind != "random" || range.empty()))
        refuse(
            name, range.empty() ? "nothing is written behind the second `:`" : fmt::format("`{}` has no range", kind));
      return made(name, kind, *form, form->dtype.value_or(declared.value_or(DType::F32)), range, reading.seed);
    }
  }
  if (const auto equals = value.find('='); equals != std::string::npos) {
    if (const std::optional<Form> form = parse_form(value.substr(0, equals)))
      return parse_elements(name, *form, value.substr(equals + 1), form->dtype.value_or(declared.value_or(DType::F32)));
    if (const auto typed = with_own_type(value.substr(0, equals)))
      throw runtime::argument_error(
          messages::bad_value, name, fmt::format("`{}` is not a shape such as `2x3xf32`", value.substr(0, equals)))
          .hint(fmt::format("write '{}={}{}', in quotes", name, *typed, value.substr(equals)));
    refuse(name, fmt::format("`{}` is not a shape such as `2x3xf32`", value.substr(0, equals)));
  }
  return std::nullopt;
}

// ---- what was meant by a malformed value ----------------------------------------------------------------------------

bool is_file(const std::string& path) {
  std::error_code fault;
  return std::filesystem::exists(path, fault);
}

// The shape of `[[1, 2], [3, 4]]` and its numbers; nothing where rows differ in length or a bracket is missing.
struct List { std::vector<std::size_t> shape; std::string numbers; };
std::optional<List> parse_list(std::string_view text) {
  List list;
  std::vector<std::size_t> counts;                       // of the brackets that are open
  bool closed = false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '[' || c == '(') {
      if (closed && counts.empty()) return std::nullopt;
      if (!counts.empty()) ++counts.back();
      counts.push_back(0);
      if (list.shape.size() < counts.size()) list.shape.push_back(any_count);
    } else if (c == ']' || c == ')') {
      if (counts.empty()) return std::nullopt;
      std::size_t& extent = list.shape[counts.size() - 1];
      if (extent != any_count && extent != counts.back()) return std::nullopt;
      extent = counts.back();
      counts.pop_back();
      closed = true;
    } else if (c != ',' && c != ' ') {
      const std::size_t end = std::min(text.find_first_of("[](), ", at), text.size());
      if (!parse_number(text.substr(at, end - at)) || (counts.empty() && closed)) return std::nullopt;
      list.numbers += (list.numbers.empty() ? "" : " ") + std::string(text.substr(at, end - at));
      if (!counts.empty()) ++counts.back();
      else if (list.shape.empty()) list.shape.push_back(1);
      else ++list.shape[0];
      at = end;
      continue;
    }
    ++at;
  }
  if (!counts.empty() || list.shape.empty() || list.numbers.empty()) return std::nullopt;
  return list;
}

// `rand`, `np.zeros`: what it is called here.
std::optional<std::string> generator_named(std::string word) {
  if (const auto dot = word.rfind('.'); dot != std::string::npos) word = word.substr(dot + 1);
  constexpr std::pair<std::string_view, std::string_view> others[] = {{"rand", "random"}, {"randn", "random"},
      {"uniform", "random"}, {"normal", "random"}, {"gauss", "random"}, {"randint", "random"}, {"range", "arange"},
      {"iota", "arange"}, {"linspace", "arange"}, {"zero", "zeros"}, {"empty", "zeros"}, {"one", "ones"},
      {"full", "ones"}};
  for (const auto& [other, name] : others)
    if (other == word) return std::string(name);
  return lang::nearest(word, {"random", "arange", "ones", "zeros"});
}

// Something to type for a value that is neither a form nor a file.
std::optional<std::string> meant(const std::string& name, const std::string& value) {
  if (is_form(value))
    return fmt::format("`{}` is a shape without elements: write `{}=random:{}`, or `{}={}=` and the numbers", value,
        name, value, name, value);
  const std::size_t mark = value.find_first_of(":([");
  if (mark != std::string::npos && mark > 0)
    if (const auto generator = generator_named(value.substr(0, mark))) {
      const std::string shape = shape_of(std::string_view(value).substr(mark + 1));
      return fmt::format("write `{}={}:{}`", name, *generator, shape.empty() ? "2x3" : shape);
    }
  std::string text = value;
  if (const auto open = text.find('(');
      open != std::string::npos && text.back() == ')' && text.find_first_of("[0123456789") > open)
    text = text.substr(open + 1, text.size() - open - 2);
  if (const auto list = parse_list(text))
    return fmt::format("a tensor shows its shape first: write '{}={}=[{}]', in quotes", name,
        fmt::join(list->shape, "x"), list->numbers);
  if (value == "True" || value == "False")
    return fmt::format("write `{}={}`", name, value == "True" ? "true" : "false");
  return std::nullopt;
}

std::string short_element(const poly::Array& array, std::size_t n) {
  if (array.dtype == DType::Bool) return array.integers[n] != 0 ? "true" : "false";
  if (array.dtype == DType::U64) return fmt::format("{}", static_cast<std::uint64_t>(array.integers[n]));
  if (!lang::is_float(array.dtype)) return fmt::format("{}", array.integers[n]);
  if (std::isnan(array.reals[n])) return "nan";        // whatever its sign
  return array.dtype == DType::F64 ? fmt::format("{:.10g}", array.reals[n]) : fmt::format("{:.6g}", array.reals[n]);
}

std::string statistics(const poly::Array& array) {
  const bool real = lang::is_float(array.dtype);
  double low = HUGE_VAL, high = -HUGE_VAL, sum = 0;
  const std::size_t count = static_cast<std::size_t>(array.count());
  for (std::size_t n = 0; n < count; ++n) {
    const double value = real       ? array.reals[n]
        : array.dtype == DType::U64 ? static_cast<double>(static_cast<std::uint64_t>(array.integers[n]))
                                    : static_cast<double>(array.integers[n]);
    low = std::fmin(low, value);
    high = std::fmax(high, value);
    sum += value;
  }
  return fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}\n", low, high, sum / static_cast<double>(count));
}

}  // namespace

std::optional<ArchivePath> archive_path(const std::string& value) {
  if (value.ends_with(".npz")) return ArchivePath{value, {}};
  const auto colon = value.find(".npz:");
  if (colon == std::string::npos) return std::nullopt;
  return ArchivePath{value.substr(0, colon + 4), value.substr(colon + 5)};
}

bool is_beyond_64_bits(std::string_view value) {
  const std::optional<Scalar> number = parse_number(value);
  return number && (number->too_large || number->beyond);
}

runtime::Argument parse_argument(
    const std::string& name, const std::string& value, std::optional<DType> declared, const Reading& reading) {
  runtime::Argument argument{name, std::nullopt, false, 0, 0};
  if (value.empty()) refuse(name, "nothing is written behind `=`");
  if (const std::optional<Scalar> number = parse_number(value)) {
    if (const DType type = declared.value_or(value.starts_with('-') ? DType::I64 : DType::U64);
        number->beyond && !lang::is_float(type))
      refuse_number(name, value, type, !declared);
    if (number->too_large) refuse_number(name, value, declared.value_or(DType::F64));
    argument.is_integer = number->is_integer && !(declared && lang::is_float(*declared) && number->integer == 0);
    argument.integer = number->integer;
    argument.real = number->real;
    argument.large = number->large;
    return argument;
  }
  std::optional<Tensor> tensor = tensor_value(name, value, declared, reading);
  const std::string path = value.starts_with('/') ? value : reading.folder + value;
  if (!tensor && !is_file(path))
    if (const auto hint = meant(name, value))
      throw runtime::argument_error(
          messages::bad_value, name, fmt::format("`{}` is no form of a value, and there is no such file", value))
          .hint(*hint)
          .hint(forms);
  if (!tensor) tensor = with_near_file(path, [&] { return read_file(name, path, reading); });
  argument.tensor = declared && tensor->dtype != *declared ? runtime::convert(name, *tensor, *declared) : *tensor;
  return argument;
}

void fill_random(const Tensor& tensor, std::string_view name, std::uint64_t seed) {
  fill(tensor, name, seed, usual_range(tensor.dtype));
}

std::optional<DType> written_type(std::string_view value) {
  const auto equals = value.find('='), colon = value.find(':');
  if (equals == std::string_view::npos && colon == std::string_view::npos) return std::nullopt;
  const std::string_view text = equals != std::string_view::npos
      ? value.substr(0, equals)
      : value.substr(colon + 1, value.find(':', colon + 1) - colon - 1);
  const std::optional<Form> form = parse_form(text);
  return form ? form->dtype : std::nullopt;
}

std::string print_element(const poly::Array& array, std::size_t n) {
  if (lang::is_float(array.dtype) && std::isnan(array.reals[n])) return short_element(array, n);
  if (array.dtype == DType::F64) return fmt::format("{}", array.reals[n]);
  if (array.dtype == DType::F32) return fmt::format("{}", static_cast<float>(array.reals[n]));
  if (array.dtype == DType::F16) return fmt::format("{:.5g}", array.reals[n]);
  if (array.dtype == DType::BF16) return fmt::format("{:.4g}", array.reals[n]);
  return short_element(array, n);
}

std::string print_value(const poly::Array& array) {
  if (array.shape.empty()) return print_element(array, 0);
  std::string text;
  for (const std::int64_t extent : array.shape) text += fmt::format("{}x", extent);
  text += fmt::format("{}=", lang::name(array.dtype));
  const auto row = static_cast<std::size_t>(array.shape.back()), count = static_cast<std::size_t>(array.count());
  for (std::size_t n = 0; n < count; ++n)
    text += fmt::format("{}{}{}", n % row == 0 ? "[" : " ", print_element(array, n), n % row == row - 1 ? "]" : "");
  return text + (count == 0 ? "[]" : "");
}

bool is_form(std::string_view text) { return !parse_number(text) && parse_form(text); }

std::string summary(const std::string& name, const Tensor& tensor) {
  std::string text = fmt::format("{}: {} {}\n", name, runtime::print_shape(tensor.shape), lang::name(tensor.dtype));
  const std::int64_t count = tensor.count();
  if (count == 0) return text;
  const poly::Array array = runtime::to_array(tensor);
  if (count > 64) return text + statistics(array);
  const std::size_t row = tensor.shape.empty() ? 1 : static_cast<std::size_t>(tensor.shape.back());
  for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) {
    text += n % row == 0 ? "  [" : " ";
    text += short_element(array, n);
    if (n % row == row - 1) text += "]\n";
  }
  return text;
}

}  // namespace tilec::cli
