// The texts an editor has open, and what is known of each: its tree, its diagnostics, the Programs of its functions.
//
// A text that is open is read as the editor has it, by other texts that import it too; all else from disk and from
// std/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "lang/load.h"
#include "lang/source.h"
#include "poly/program.h"

namespace tilec::cli::lsp {

struct Document {
  std::string uri, name, text;                         // name: as imports of other texts find it
  std::optional<std::int64_t> version;

  // Of the text as it is now, once asked for.
  bool read = false, checked = false;
  std::size_t next = 0;                                // the first item of the file that is not checked yet
  std::vector<lang::Source> sources, outlined;         // the text and its imports: as checked, and as the tree has them
  lang::Diagnostics diagnostics;                       // of the text alone, and once `checked` of its functions
  std::shared_ptr<const lang::File> file;              // never null once `read`; of a text at fault an outline
  bool whole = false;                                  // it is a program as far as lang knows

  // By the names of functions, the last ones that could be built.
  std::map<std::string, poly::Program> programs;

  const std::vector<lang::Source>& tree_sources() const { return whole ? sources : outlined; }
  const poly::Program* program_of(const lang::Function& function) const;
};

class Workspace {
 public:
  explicit Workspace(std::vector<std::string> include);

  Document& open(const std::string& uri, std::string text, std::optional<std::int64_t> version);
  void change(Document& document, std::string text, std::optional<std::int64_t> version);
  void close(const std::string& uri);
  Document* find(const std::string& uri);
  std::map<std::string, Document>& documents() { return documents_; }

  void forget_files();                                 // files on disk have changed: all is read again
  const Document& read(Document& document);            // its tree, at hand for every answer
  // Its diagnostics, too: a function after the other, while `goes_on` says so. What is done is done when it is called
  // again.
  const Document& check(Document& document, const std::function<bool()>& goes_on);

  // The Program of the function around a place, before its turn has come.
  void build_at(Document& document, std::size_t offset);

  // Where a source is: the URI the editor has it under, else its file's. Nothing for a part of std/ that only the
  // binary has.
  std::optional<std::string> uri_of_source(const Document& from, const lang::Source& source) const;

 private:
  lang::Find finder_;
  std::map<std::string, Document> documents_;          // by URI
  void outdate(const std::string& name);               // and who imports it
  std::size_t build_from(
      Document& document, std::size_t first, lang::Diagnostics& diagnostics, const std::function<bool()>& goes_on);
};

inline constexpr std::size_t largest_document = 4 << 20;

}  // namespace tilec::cli::lsp
