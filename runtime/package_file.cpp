#include "runtime/package_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "poly/exact.h"
#include "runtime/archive.h"
#include "runtime/error.h"
#include "runtime/tensor.h"

namespace tilec::runtime {

namespace {

using codegen::Package;

constexpr std::string_view magic = "tilec package ";
constexpr std::string_view begins = "tilec package 4\n";

template <class Archive, class P> void fields(Archive& archive, P& package, bool is_backward = false) {
  const auto plain = [&](auto& value) { archive(value); };
  const auto port = [&](auto& p) {
    archive(p.name);
    number(archive, p.dtype, static_cast<std::int64_t>(std::size(lang::all_dtypes)));
    all(archive, p.shape, plain);
    all(archive, p.strides, plain);
  };
  archive(package.compiler);
  archive(package.name);
  archive(package.source);
  archive(package.target);
  archive(package.architecture);
  all(archive, package.features, plain);
  number(archive, package.form, 3);
  all(archive, package.code, plain);
  all(archive, package.inputs, port);
  all(archive, package.outputs, port);
  all(archive, package.buffers, [&](auto& b) { archive(b.bytes), archive(b.offset); });
  archive(package.workspace);
  archive(package.locals);
  all(archive, package.launches, [&](auto& l) {
    archive(l.kernel);
    all(archive, l.buffers, [&](auto& b) { number(archive, b, 1 << 30); });
    all(archive, l.numbers, plain);
    archive(l.code);
    for (auto& extent : l.grid) archive(extent);
    archive(l.threads), archive(l.shared), archive(l.dynamic_shared);
  });
  all(archive, package.accumulate, plain);
  archive(package.kept);
  if (is_backward) return;
  all(archive, package.backward, [&](auto& backward) { fields(archive, backward, true); });
}

// What a reader of the fields relies on, whoever wrote them.
void check(const Package& p) {
  const auto is = [](bool holds, const char* why) { if (!holds) throw std::string(why); };
  const std::size_t ports = p.inputs.size() + p.outputs.size();
  is(p.buffers.size() >= ports, "buffers are missing");
  const auto place = [&](const codegen::Port& port, const codegen::Place& buffer) {
    is(port.shape.size() == port.strides.size() && port.shape.size() <= 64, "a port has another rank than strides");
    is(std::ranges::all_of(port.shape, [](std::int64_t n) { return n >= 0; }), "an extent is negative");
    // machine code takes such a tensor where it lies, as do kernels of a GPU that were compiled for it
    const bool strided = p.form != Package::Code::OpenCl && port.strides != row_major(port.shape);
    is(strided || byte_count(port.name, port.dtype, port.shape) == buffer.bytes,
        "a port has another size than its buffer");
  };
  for (std::size_t k = 0; k < p.inputs.size(); ++k) place(p.inputs[k], p.buffers[k]);
  for (std::size_t k = 0; k < p.outputs.size(); ++k) place(p.outputs[k], p.buffers[p.inputs.size() + k]);
  is(p.workspace >= 0 && p.workspace % codegen::workspace_alignment == 0 && p.locals >= 0 && p.locals % 64 == 0,
      "its workspace has no such size");
  for (std::size_t b = ports; b < p.buffers.size(); ++b) {
    const codegen::Place& part = p.buffers[b];
    is(part.bytes >= 0 && part.offset >= 0 && part.offset % codegen::workspace_alignment == 0 &&
            part.offset <= p.workspace && part.bytes <= p.workspace - part.offset,
        "a buffer lies outside the workspace");
  }
  const auto size = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  for (const codegen::Launch& launch : p.launches) {
    for (const int b : launch.buffers) is(b < size(p.buffers), "a launch names a missing buffer");
    is(launch.code >= 0 && launch.code < size(p.code), "a launch names missing code");
    is(std::ranges::all_of(launch.grid, [](std::int64_t n) { return n >= 0; }) && launch.threads > 0 &&
            launch.shared >= 0 && launch.dynamic_shared >= 0,
        "a launch has a negative size");
  }
  is(p.accumulate.size() <= p.inputs.size(), "it adds to more than it has");
  is(p.accumulate.empty() || p.backward.empty(), "it is a pair that adds");
  for (std::size_t k = 0; k < p.accumulate.size(); ++k) {
    const std::int64_t output = p.accumulate[k];
    is(output >= (k == 0 ? 0 : p.accumulate[k - 1] + 1) && output < size(p.outputs),
        "it adds to an output that it has not");
    const codegen::Port &held = p.inputs[p.inputs.size() - p.accumulate.size() + k],
                        &to = p.outputs[static_cast<std::size_t>(output)];
    is(held.dtype == to.dtype && held.shape == to.shape && held.strides == row_major(held.shape),
        "what it adds to has another shape");
  }
  is(p.kept >= 0 && p.kept <= size(p.outputs) && (p.kept == 0 || !p.backward.empty()),
      "it keeps what it does not make");
  is(p.backward.size() <= 1, "it has two backward passes");
  for (const Package& backward : p.backward) {
    check(backward);
    is(backward.accumulate.empty(), "its backward pass adds");
    for (const codegen::Port& port : backward.inputs)
      for (const auto* ports : {&p.inputs, &p.outputs}) {
        const auto same = std::ranges::find(*ports, port.name, &codegen::Port::name);
        is(same == ports->end() || *same == port, "backward takes another tensor than there is");
      }
  }
}

Package read(std::string_view bytes) {
  Package package;
  Read reader(unframed(bytes, magic, begins));
  fields(reader, package);
  if (!reader.rest().empty()) throw std::string("something follows its fields");
  check(package);
  return package;
}

}  // namespace

std::string to_bytes(const Package& package) {
  Write body;
  fields(body, package);
  return framed(begins, body.bytes);
}

bool is_package(std::string_view bytes) { return bytes.starts_with(magic); }

Package package_from(std::string_view bytes, const std::string& path) {
  try {
    return read(bytes);
  } catch (const std::string& why) {
    throw machine_error(messages::bad_package, path, why);
  }
}

}  // namespace tilec::runtime
