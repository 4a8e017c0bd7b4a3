// A program as a caller holds it, and its specialisations: one Module per shapes, types and strides it was called with.
//
//   Callable f{source, file, options};
//   f.specialise({{"A", a 512x512 f32}, {"B", …}}, {}, diagnostics)
//     ⇒  a Module; the second such call finds it in the cache
//
// Scalars given as plain numbers are weak (docs/language.md#types); one that is used as a size is part of the key, any
// other is data.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lang/source.h"
#include "runtime/cache.h"
#include "runtime/module.h"
#include "runtime/texts.h"

namespace tilec::runtime {

// What one input is called with. The bytes matter only for scalars that are used as sizes.
struct Argument {
  std::string name;
  std::optional<Tensor> tensor;                        // else a plain number:
  bool is_integer = false;
  std::int64_t integer = 0;
  double real = 0;                                     // its value, always
  bool large = false;                                  // an integer from 2^63 on: `integer` holds its bits
  bool add = false;                                    // of a result: the call adds to what the tensor holds
  bool unwanted = false;                               // of a result: it is not computed
};

const Argument* argument_named(const std::vector<Argument>& arguments, std::string_view name);  // null: there is none
// Of an integer, a number or a scalar in the host's memory, which is read.
std::int64_t integer_of(const Argument& argument);

struct Specialisation {
  std::shared_ptr<const Module> module;                // of a pair: forward
  std::shared_ptr<const Module> backward = nullptr;    // of a pair
  lang::Diagnostics said;                              // warnings and remarks: an equal call hears them too
  codegen::Stages stages;                              // how it came about; empty when it was found, here or on the
                                                       // disk
};

// A device module packs tensors of the host on the way, so its kernels are compiled for row-major ones, whatever the
// strides of the caller's.
codegen::Request as_compiled(codegen::Request request);

// How many specialisations a program keeps where its caller does not say: TILEC_KERNELS, else 128.
std::size_t usual_kernels();
// The value of an argument without a tensor, as a scalar. RuntimeError E0215 when the type does not have it (tensor.h).
Tensor number_as(const Argument& argument, DType type);

// A parsed and checked file with what it imports: one for all programs that are made of its functions. It never
// changes, so threads share it.
struct Loaded {
  std::vector<lang::Source> sources;                   // of its spans; the file itself first
  lang::File file;
  std::vector<Resolved> imports = {};                  // among these
};

class Callable {
 public:
  // `request` holds function, defines, sizes, derivatives, outputs, target and threads. Of more than
  // `kernels` specialisations the one that was not used for longest goes. `disk`: where they are looked for before they
  // are compiled, and kept; what comes from there has no stages. Null: nowhere. `keeps_stages`: nothing that was
  // compiled is taken from there or kept, only plans that were tuned.
  Callable(std::shared_ptr<const Loaded> loaded, codegen::Request request, std::size_t kernels = usual_kernels(),
      std::shared_ptr<const Cache> disk = nullptr, bool keeps_stages = false);
  Callable(std::vector<lang::Source> sources, lang::File file, codegen::Request request)
      : Callable(std::make_shared<const Loaded>(Loaded{std::move(sources), std::move(file), {}}), std::move(request)) {}

  const std::shared_ptr<const Loaded>& loaded() const { return loaded_; }
  const std::vector<lang::Source>& sources() const { return loaded_->sources; }
  const lang::File& file() const { return loaded_->file; }
  const codegen::Request& request() const { return request_; }
  std::size_t kernels() const { return kernels_; }
  const std::shared_ptr<const Cache>& disk() const { return disk_; }
  std::size_t kept() const;                            // specialisations, now
  const lang::Function* function() const { return function_; }  // null when it is ambiguous: specialise says so

  std::vector<std::string> input_names() const;        // of the function; a derivative's cotangents or tangents follow
                                                       // them
  std::vector<std::string> result_names() const;

  // The program these arguments make, sizes still names where no argument says more: its inputs and outputs in order,
  // with types. `request` becomes the one it was built with. nullopt: errors are in `diagnostics`. An input with a
  // default that is not among them is no input of it; `whole`: is one all the same.
  std::optional<poly::Program> outline(const std::vector<Argument>& arguments, codegen::Request& request,
      lang::Diagnostics& diagnostics, bool whole = false) const;

  // The request for these arguments: types, shapes, sizes and strides filled in. `results` are the outputs that the
  // caller allocated, by name; others are row-major.
  std::optional<codegen::Request> request_for(const std::vector<Argument>& arguments,
      const std::vector<Argument>& results, lang::Diagnostics& diagnostics) const;

  // Null: errors are in `diagnostics`.
  std::shared_ptr<const Specialisation> specialise(const std::vector<Argument>& arguments,
      const std::vector<Argument>& results, lang::Diagnostics& diagnostics) const;

 private:
  void refuse_type(
      const poly::Tensor& tensor, const std::string& name, poly::DType given, lang::Diagnostics& diagnostics) const;
  bool bind_scalars(const poly::Program& program, const std::vector<Argument>& arguments, codegen::Request& request,
      lang::Diagnostics& diagnostics) const;
  bool names_differ(lang::Diagnostics& diagnostics) const;
  bool is_cotangent(const std::string& name) const;
  bool check_result(const poly::Tensor& tensor, const Argument& result, lang::Diagnostics& diagnostics) const;
  std::string key_of(const std::vector<Argument>& arguments, const std::vector<Argument>& results) const;
  struct Loads { std::shared_ptr<const Module> module, backward; };
  std::optional<Loads> found_or_compiled(const codegen::Request& request, codegen::Stages& stages,
      lang::Diagnostics& said, lang::Diagnostics& diagnostics) const;
  Loads loaded(const Compiled& compiled, const codegen::Request& request) const;
  void keep(const std::string& key, const Specialisation& made,
      std::vector<std::shared_ptr<const Specialisation>>& gone) const;

  std::shared_ptr<const Loaded> loaded_;
  codegen::Request request_;
  std::size_t kernels_;
  std::shared_ptr<const Cache> disk_;
  bool keeps_stages_;
  const lang::Function* function_ = nullptr;
  struct Kept { std::shared_ptr<const Specialisation> made; std::uint64_t used; };
  mutable std::mutex mutex_;                           // of what follows
  mutable std::map<std::string, Kept> cache_;
  mutable std::uint64_t uses_ = 0;
  mutable std::set<std::string> being_made_;           // keys that a thread compiles: others wait for it
  mutable std::condition_variable made_;
  mutable std::set<std::string> size_scalars_;         // inputs that turned out to be sizes: their values are part of
                                                       // the key
};

// One tensor per input of the module: the argument's own, a scalar made of its number, or zeros for an input that is
// not read.
std::vector<Tensor> bind_inputs(const Module& module, const std::vector<Argument>& arguments);
std::vector<Tensor> allocate_outputs(const Module& module);
void run(const Module& module, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);

// unnamed, else the only one; null: ambiguous or absent
const lang::Function* entry_of(const lang::File& file, const std::optional<std::string>& name);

}  // namespace tilec::runtime
