#include "lang/load.h"

#include <algorithm>
#include <map>

#include "lang/check.h"
#include "lang/messages.h"
#include "lang/parse.h"

namespace tilec::lang {
namespace {

class Loader {
 public:
  Loader(const Find& find, std::vector<Source>& sources, Diagnostics& diagnostics) : find_(find), sources_(sources), diagnostics_(diagnostics) {}

  std::optional<File> load(const Source& source) {
    const auto number = static_cast<std::uint32_t>(sources_.size());
    sources_.push_back(source);
    open_.push_back(source.name);
    auto file = parse(source, diagnostics_, number);
    bool whole = file.has_value();
    for (auto& item : file ? file->items : none_)
      if (auto* import = std::get_if<Import>(&item)) whole &= resolve(*import, source);
    open_.pop_back();
    if (file) make_index(*file);
    // A call of what could not be imported is no second fault.
    if (!whole || !check(*file, diagnostics_)) return std::nullopt;
    return file;
  }

 private:
  const Find& find_;
  std::vector<Source>& sources_;
  Diagnostics& diagnostics_;
  std::vector<std::string> open_;                      // names of the files being read, the outermost first
  std::map<std::string, std::shared_ptr<const File>> read_;
  std::vector<std::variant<Import, Dim, Function>> none_;

  bool resolve(Import& import, const Source& importer) {
    const Found found = find_(import.path, importer.name);
    if (!found.source) {
      diagnostics_.report(import.span, messages::import_missing, import.path, found.problem);
      return false;
    }
    const auto cycle = std::find(open_.begin(), open_.end(), found.source->name);
    if (cycle != open_.end()) {
      std::string chain;
      for (auto name = cycle; name != open_.end(); ++name) chain += *name + " → ";
      diagnostics_.report(import.span, messages::import_cycle, chain + *cycle).hint("move what both need into a third file");
      return false;
    }
    const auto known = read_.find(found.source->name);
    if (known != read_.end()) {
      import.file = known->second;
      return import.file != nullptr;                    // a faulty one was reported when it was read
    }
    auto file = load(*found.source);
    import.file = file ? std::make_shared<const File>(std::move(*file)) : nullptr;
    read_[found.source->name] = import.file;
    return import.file != nullptr;
  }
};

}  // namespace

std::optional<File> load(const Source& source, const Find& find, std::vector<Source>& sources, Diagnostics& diagnostics) {
  return Loader(find, sources, diagnostics).load(source);
}

}  // namespace tilec::lang
