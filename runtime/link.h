// Relocatable ELF objects, linked for one address: sections laid into three runs of pages, references resolved.
//
//   const Linker linker(objects, 4096);                   // reads and lays out; throws LinkError
//   linker.write(memory, address, find);                  // the bytes that stand at `address`; `find`: functions of
//                                                         the process
//   address + linker.symbols().at("k0_O")                 // an entry point
//
// It knows what machine code of ours consists of: position-independent code for x86-64 and AArch64, constants, calls. A
// call out of the image goes through a stub beside the code, since a library may lie further off than a call reaches.
// Everything that is read from an object is checked: one that was cut or changed is a LinkError, never a wild write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lang/diagnostic.h"

namespace tilec::runtime {

struct LinkError : lang::InternalError { using lang::InternalError::InternalError; };

class Linker {
 public:
  using Symbols = std::map<std::string, std::uint64_t, std::less<>>;
  using Find = std::function<std::uint64_t(const std::string& name)>;

  // The objects must outlive the linker. `page`: bytes, a power of two.
  Linker(std::span<const std::string> objects, std::uint64_t page);

  // Code is [0, code_end()), constants [code_end(), constants_end()), data [constants_end(), size()). Whole pages each.
  std::uint64_t code_end() const { return end_[Code]; }
  std::uint64_t constants_end() const { return end_[Constants]; }
  std::uint64_t size() const { return end_[Data]; }
  const Symbols& symbols() const { return symbols_; }   // the global ones that the objects define: offsets in the image

  // `memory` has size() bytes, all zero. `find` gives the address of a function of the process; 0, a LinkError: it has
  // none.
  void write(std::span<char> memory, std::uint64_t address, const Find& find) const;

 private:
  enum Kind { Code, Constants, Data };
  // no bytes: zeros
  struct Section { std::string_view bytes; std::uint64_t size, alignment; Kind kind; std::uint64_t offset; };
  // section -1: of another object or of the process
  struct Symbol { std::string name; int section; std::uint64_t value; };
  struct Relocation { int section; std::uint64_t at; std::uint32_t type; std::int64_t addend; std::size_t symbol; };
  class Reader;

  void read(const std::string& object);
  void name_symbols();
  void lay_out(std::uint64_t page);
  bool has_slot(const Relocation& relocation) const;
  std::uint64_t stub(std::size_t symbol) const;
  std::uint64_t slot(std::size_t symbol) const;

  std::uint16_t machine_ = 0;                            // e_machine; 0: no object was read
  std::vector<Section> sections_;
  std::vector<Symbol> all_;                              // of all objects
  std::vector<Relocation> relocations_;
  std::map<std::size_t, std::uint64_t> slots_;           // of symbols whose address stands among the constants: its
                                                         // position there
  std::uint64_t stubs_ = 0, table_ = 0;                  // offsets of the stubs and of the addresses they jump to
  std::uint64_t end_[3] = {0, 0, 0};
  Symbols symbols_;
};

}  // namespace tilec::runtime
