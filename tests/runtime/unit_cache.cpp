// Compiled programs on disk: found again as they were, and nothing that was cut, changed or written by others is run.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/cache.h"
#include "runtime/error.h"
#include "runtime/specialise.h"
#include "tests/codegen/compiled.h"

namespace tilec {
namespace {

namespace fs = std::filesystem;
using runtime::Argument;
using runtime::Cache;
using runtime::Callable;
using runtime::Tensor;

// A folder of this test's own, gone when it ends.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("tilec-cache-" + std::to_string(::getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  std::shared_ptr<const Cache> cache(std::uint64_t limit = 1 << 30) const {
    return std::make_shared<const Cache>(path.string(), limit);
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(path)) all.push_back(entry.path());
    return all;
  }
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

constexpr const char* doubled = "function f(X[N]) -> (Y) { Y[i: N] = =(X[i] + X[i + 1]); }";

std::shared_ptr<const runtime::Loaded> loaded(const std::string& text) {
  return std::make_shared<const runtime::Loaded>(runtime::Loaded{{{"f.tile", text}}, test::parsed(text)});
}

codegen::Request on_cpu() {
  codegen::Request request = test::request_for({}, "cpu");
  request.threads_hint = 1;
  return request;
}

Tensor ramp(std::int64_t count) {
  Tensor made = runtime::allocate("X", poly::DType::F32, {count});
  for (std::int64_t i = 0; i < count; ++i) static_cast<float*>(made.data)[i] = static_cast<float>(i);
  return made;
}

struct Outcome { bool compiled; std::vector<float> values; std::vector<lang::Diagnostic> said; };

Outcome outcome(const std::shared_ptr<const Cache>& cache, const codegen::Request& request = on_cpu(),
    std::int64_t count = 4, const char* text = doubled) {
  const Callable callable(loaded(text), request, 8, cache);
  lang::Diagnostics diagnostics;
  const std::vector<Argument> arguments{{.name = "X", .tensor = ramp(count)}};
  const auto made = callable.specialise(arguments, {}, diagnostics);
  REQUIRE(made);
  const std::vector<Tensor> out = runtime::allocate_outputs(*made->module);
  runtime::run(*made->module, runtime::bind_inputs(*made->module, arguments), out);
  const auto* first = static_cast<const float*>(out[0].data);
  return {made->stages.lowered.has_value(), {first, first + out[0].count()}, made->said.all()};
}

const std::vector<float> right{1, 3, 5, 0};

}  // namespace

TEST_CASE("what one program compiled, an equal one finds, with what is said of it") {
  const Folder folder;
  const Outcome first = outcome(folder.cache()), second = outcome(folder.cache());
  CHECK(first.compiled);
  CHECK(!second.compiled);
  CHECK(first.values == right);
  CHECK(second.values == right);
  REQUIRE(!first.said.empty());
  REQUIRE(first.said.size() == second.said.size());
  for (std::size_t k = 0; k < first.said.size(); ++k) {
    CHECK(first.said[k].code == second.said[k].code);
    CHECK(first.said[k].message == second.said[k].message);
    CHECK(first.said[k].span == second.said[k].span);
    CHECK(first.said[k].hints == second.said[k].hints);
  }
  struct stat status{};
  REQUIRE(::stat(folder.path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE("what a compilation depends on makes another entry") {
  const Folder folder;
  std::vector<codegen::Request> requests(8, on_cpu());
  requests[1].target = *codegen::target_named("cpu:x86-64-v3");
  requests[2].checked = true;
  requests[3].derivatives = {{}};
  requests[4].derivatives = {{.forward = true, .of = {}, .wrt = {}}};
  requests[5].plan = codegen::PlanText{"no copy\n", 0};
  requests[6].target.l2 *= 2;
  requests[7].signature.function = "f";
  std::set<std::string> texts;
  for (const codegen::Request& request : requests) texts.insert(runtime::text_of(*loaded(doubled), request));
  texts.insert(runtime::text_of(*loaded(std::string(doubled) + "\n"), on_cpu()));
  CHECK(texts.size() == requests.size() + 1);
  codegen::Request threads = on_cpu();
  threads.threads_hint = 7;
  CHECK(runtime::text_of(*loaded(doubled), threads) == runtime::text_of(*loaded(doubled), on_cpu()));
  CHECK(outcome(folder.cache(), on_cpu(), 4).compiled);
  CHECK(outcome(folder.cache(), on_cpu(), 5).compiled);
  CHECK(folder.entries().size() == 2);
}

TEST_CASE("a pair, what is added to and what is checked come from the disk") {
  const Folder folder;
  codegen::Request pair = on_cpu();
  pair.derivatives = {{}};
  pair.pair = true;
  const std::vector<Argument> arguments{{.name = "X", .tensor = ramp(4)}};
  for (const bool compiled : {true, false}) {
    lang::Diagnostics diagnostics;
    const auto made = Callable(loaded("function (X[N]) -> (L) { L[] = +(exp(X[i]) * X[i]); }"), pair, 8, folder.cache())
                          .specialise(arguments, {}, diagnostics);
    REQUIRE(made);
    CHECK(made->stages.lowered.has_value() == compiled);
    REQUIRE(made->backward);
    CHECK(made->backward->outputs.size() == 1);
  }
  for (const bool compiled : {true, false}) {
    lang::Diagnostics diagnostics;
    const Argument result{.name = "Y", .tensor = ramp(4), .add = true};
    const auto made =
        Callable(loaded(doubled), on_cpu(), 8, folder.cache()).specialise(arguments, {result}, diagnostics);
    REQUIRE(made);
    CHECK(made->stages.lowered.has_value() == compiled);
    runtime::run(*made->module, runtime::bind_inputs(*made->module, arguments), {*result.tensor});
    const auto* sums = static_cast<const float*>(result.tensor->data);
    CHECK(std::vector<float>(sums, sums + 4) == std::vector<float>{1, 4, 7, 3});
  }
  codegen::Request checked = on_cpu();
  checked.checked = true;
  for (const bool compiled : {true, false}) {
    lang::Diagnostics diagnostics;
    Tensor indices = runtime::allocate("I", poly::DType::I32, {2});
    static_cast<std::int32_t*>(indices.data)[0] = 1, static_cast<std::int32_t*>(indices.data)[1] = 9;
    const std::vector<Argument> given{{.name = "X", .tensor = ramp(4)}, {.name = "I", .tensor = indices}};
    const auto made = Callable(loaded("function (X[N], I[M]) -> (Y) { Y = gather(X, I); }"), checked, 8, folder.cache())
                          .specialise(given, {}, diagnostics);
    REQUIRE(made);
    CHECK(made->stages.lowered.has_value() == compiled);
    CHECK_THROWS_AS(runtime::run(*made->module, runtime::bind_inputs(*made->module, given),
                        runtime::allocate_outputs(*made->module)),
        runtime::RuntimeError);
  }
}

TEST_CASE("an entry that was changed or cut off is compiled anew, and is whole again") {
  const Folder folder;
  CHECK(outcome(folder.cache()).compiled);
  const fs::path entry = folder.entries().at(0);
  const std::string whole = bytes_of(entry);
  const std::string text = runtime::text_of(*loaded(doubled), on_cpu());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    CHECK_THROWS_AS(static_cast<void>(runtime::compiled_from(changed, text)), std::string);
    CHECK_THROWS_AS(static_cast<void>(runtime::compiled_from(whole.substr(0, at), text)), std::string);
  }
  for (const std::string& bytes : {std::string(), whole.substr(0, whole.size() / 2), whole + "x",
           std::string("tilec compiled 0\n") + whole.substr(17)}) {
    write(entry, bytes);
    const Outcome again = outcome(folder.cache());
    CHECK(again.compiled);
    CHECK(again.values == right);
    CHECK(bytes_of(entry) == whole);
  }
  CHECK(!outcome(folder.cache()).compiled);
}

TEST_CASE("an entry of another text under the same name is none") {
  const Folder folder;
  CHECK(outcome(folder.cache(), on_cpu(), 4).compiled);
  const fs::path four = folder.entries().at(0);
  const std::string bytes = bytes_of(four);
  fs::remove(four);
  CHECK(outcome(folder.cache(), on_cpu(), 5).compiled);
  write(folder.entries().at(0), bytes);
  CHECK(outcome(folder.cache(), on_cpu(), 5).compiled);
}

TEST_CASE("what others may have written is not run") {
  const Folder folder;
  CHECK(outcome(folder.cache()).compiled);
  const fs::path entry = folder.entries().at(0);
  fs::permissions(entry, fs::perms::others_write, fs::perm_options::add);
  CHECK(outcome(folder.cache()).compiled);
  CHECK(!outcome(folder.cache()).compiled);               // it was written anew
  fs::permissions(folder.path, fs::perms::group_write, fs::perm_options::add);
  CHECK(outcome(folder.cache()).compiled);
  CHECK(outcome(folder.cache()).compiled);
  fs::permissions(folder.path, fs::perms::owner_all);
  const fs::path elsewhere = folder.path / "elsewhere";
  fs::rename(entry, elsewhere);
  fs::create_symlink(elsewhere, entry);
  CHECK(outcome(folder.cache()).compiled);
  CHECK(fs::is_regular_file(fs::symlink_status(entry)));
}

TEST_CASE("a place where nothing can be kept is no fault") {
  for (const char* place : {"/dev/null", "/dev/null/tilec", "/proc/tilec"}) {
    const auto cache = std::make_shared<const Cache>(place);
    CHECK(outcome(cache).values == right);
    CHECK(cache->content().entries == 0);
  }
}

TEST_CASE("beyond its limit the entries that were not used for longest go") {
  const Folder folder;
  CHECK(outcome(folder.cache()).compiled);
  const std::uint64_t one = fs::file_size(folder.entries().at(0));
  const auto small = folder.cache(10 * one);
  for (std::int64_t count = 5; count < 70; ++count) CHECK(outcome(small, on_cpu(), count).compiled);
  CHECK(small->content().bytes <= 10 * one + 17 * 2 * one);  // it is looked at after every sixteenth
  CHECK(small->content().entries < 60);
  const Cache::Content before = small->content(), gone = small->clear();
  CHECK(gone.entries == before.entries);
  CHECK(gone.bytes == before.bytes);
  CHECK(small->content().entries == 0);
}

}  // namespace tilec
