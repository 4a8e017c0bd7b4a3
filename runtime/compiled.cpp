#include "runtime/compiled.h"

#include <bit>
#include <type_traits>

#include "runtime/archive.h"
#include "runtime/assemble.h"
#include "runtime/compiler_id.h"
#include "runtime/device.h"
#include "runtime/package_file.h"
#include "runtime/specialise.h"

namespace tilec::runtime {

namespace {

constexpr std::string_view magic = "tilec compiled ";
constexpr std::string_view begins = "tilec compiled 2\n";

// Whatever a request holds, each value behind its type's own length, so that no two requests give the same text.
class Spelled {
 public:
  const std::string& text() const { return out_.bytes; }

  void operator()(const std::string& value) { out_(value); }
  void operator()(double value) { out_(std::bit_cast<std::uint64_t>(value)); }
  template <class Number> requires std::is_integral_v<Number> || std::is_enum_v<Number>
  void operator()(Number value) { out_(static_cast<std::int64_t>(value)); }
  void operator()(const poly::Size& value) { out_(value.print()); }
  template <class First, class Second>
  void operator()(const std::pair<First, Second>& value) {
    (*this)(value.first), (*this)(value.second);
  }
  template <class... Each>
  void operator()(const std::variant<Each...>& value) {
    (*this)(value.index()), std::visit(*this, value);
  }
  template <class Value> void operator()(const std::optional<Value>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  template <class Value> void operator()(const std::vector<Value>& values) { list(values); }
  template <class Key, class Value> void operator()(const std::map<Key, Value>& values) { list(values); }

  void operator()(const poly::Given& given) {
    const auto& [name, dtype, shape, integer, weak] = given;
    (*this)(name), (*this)(dtype), (*this)(shape), (*this)(integer), (*this)(weak);
  }
  void operator()(const poly::Define& define) { (*this)(define.name), (*this)(define.value); }
  void operator()(const codegen::Derivative& derivative) {
    const auto& [forward, of, wrt, values, batch, extent] = derivative;
    (*this)(forward), (*this)(of), (*this)(wrt), (*this)(values), (*this)(batch), (*this)(extent);
  }
  void operator()(const codegen::PlanText& plan) { (*this)(plan.text), (*this)(plan.source); }
  void operator()(const codegen::Target& target) {
    const auto& [family, name, arch, triple, features, vector_bytes, vector_registers, l1, l2, l3, max_threads,
        shared_bytes, capability, math, multiprocessors] = target;
    (*this)(family), (*this)(name), (*this)(arch), (*this)(triple), (*this)(features), (*this)(vector_bytes),
        (*this)(vector_registers);
    (*this)(l1), (*this)(l2), (*this)(l3), (*this)(max_threads), (*this)(shared_bytes), (*this)(capability),
        (*this)(math), (*this)(multiprocessors);
  }
  // Bound by structure, so that a new field is not forgotten here. How many threads run it is nothing that is compiled.
  void operator()(const codegen::Request& request) {
    const auto& [signature, sizes, asked_sizes, sizes_from, derivatives, outputs, accumulate, split, pair, room,
        keeps_rewrites, checked, target, threads_hint, strides, in_place, plan, output_strides] = request;
    (*this)(signature.function), (*this)(signature.inputs), (*this)(signature.defines), (*this)(signature.omitted),
        (*this)(signature.ranks), (*this)(sizes), (*this)(asked_sizes), (*this)(sizes_from), (*this)(derivatives),
        (*this)(outputs);
    (*this)(accumulate), (*this)(split), (*this)(pair), (*this)(room), (*this)(keeps_rewrites), (*this)(checked),
        (*this)(target), (*this)(strides), (*this)(in_place), (*this)(plan), (*this)(output_strides);
    static_cast<void>(threads_hint);
  }

 private:
  template <class List> void list(const List& values) {
    (*this)(values.size());
    for (const auto& value : values) (*this)(value);
  }
  Write out_;
};

template <class Archive> void place(Archive& archive, lang::Span& span) {
  for (std::uint32_t* number : {&span.begin, &span.end, &span.source}) {
    std::int64_t value = *number;
    archive(value);
    *number = static_cast<std::uint32_t>(value);
  }
}

template <class Archive> void fields(Archive& archive, Compiled& compiled) {
  const auto plain = [&](auto& value) { archive(value); };
  all(archive, compiled.halves, [&](Half& half) {
    std::string package = to_bytes(half.package);
    archive(package);
    if constexpr (std::is_same_v<Archive, Read>) half.package = package_from(package, "the cache");
    all(archive, half.outputs, plain);
    all(archive, half.checks, [&](poly::IndexCheck& check) {
      archive(check.indices);
      number(archive, check.dtype, static_cast<std::int64_t>(std::size(lang::all_dtypes)));
      all(archive, check.shape, plain);
      archive(check.bound), archive(check.reader);
      place(archive, check.span);
    });
  });
  all(archive, compiled.said, [&](lang::Diagnostic& d) {
    archive(d.code);
    number(archive, d.severity, 3);
    archive(d.message);
    place(archive, d.span);
    all(archive, d.labels, [&](lang::Label& label) { place(archive, label.span), archive(label.text); });
    all(archive, d.hints, plain);
  });
  archive(compiled.tuning), archive(compiled.plan);
}

}  // namespace

Half half_of(const codegen::Stages& stages, const codegen::Request& request) {
  if (has_threads(request.target)) open_device(request.target.name)->check_compiler();
  return {assemble(*stages.lowered, request), stages.outputs, stages.checks};
}

// Names of sources are left out: places in a text do not depend on where it lies.
std::string text_of(const Loaded& loaded, const codegen::Request& request) {
  Spelled spelled;
  spelled(std::string(compiler_id()));
  spelled(loaded.sources.size());
  for (const lang::Source& source : loaded.sources) spelled(source.text);
  spelled(request);
  return spelled.text();
}

std::string text_for_plans(const std::string& printed, const codegen::Request& request) {
  Spelled spelled;
  spelled(std::string(compiler_id())), spelled(printed), spelled(request.target), spelled(request.strides),
      spelled(request.output_strides);
  return spelled.text();
}

std::string to_bytes(const Compiled& compiled, const std::string& text) {
  Write body;
  body(text);
  Compiled copy = compiled;
  fields(body, copy);
  return framed(begins, body.bytes);
}

Compiled compiled_from(std::string_view bytes, const std::string& text) {
  Read reader(unframed(bytes, magic, begins));
  std::string known;
  reader(known);
  Compiled compiled;
  if (known != text) return compiled;
  fields(reader, compiled);
  if (!reader.rest().empty()) throw std::string("something follows its fields");
  if (compiled.halves.empty() || compiled.halves.size() > 2) throw std::string("it has no program");
  return compiled;
}

}  // namespace tilec::runtime
