#include "runtime/link.h"

#include <elf.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

namespace tilec::runtime {

namespace {

constexpr std::uint64_t largest_image = std::uint64_t{1} << 30;  // every distance inside fits 32 bits
constexpr std::uint64_t stub_bytes = 16;

[[noreturn]] void refuse(const std::string& why) { throw LinkError("machine code: " + why); }

std::uint64_t rounded_up(std::uint64_t n, std::uint64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

template <class T> T peek(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T> void poke(char* at, T value) { std::memcpy(at, &value, sizeof value); }

// How a reference is written into the bytes at its place.
enum class Form { Absolute64, Relative64, Relative32, Call26, PageHigh21, PageLow12, Load12 };
struct Reference {
  Form form;
  bool slot = false;                                     // it is to the address of the symbol in the table, not to the
                                                         // symbol
  int scale = 0;                                         // of Load12: log2 of the bytes loaded
};

const Reference* reference_of(std::uint16_t machine, std::uint32_t type) {
  static const std::map<std::uint32_t, Reference> x86 = {
      {R_X86_64_64, {Form::Absolute64}},
      {R_X86_64_PC64, {Form::Relative64}},
      {R_X86_64_PC32, {Form::Relative32}},
      {R_X86_64_PLT32, {Form::Relative32}},
      {R_X86_64_GOTPCREL, {Form::Relative32, true}},
      {R_X86_64_GOTPCRELX, {Form::Relative32, true}},
      {R_X86_64_REX_GOTPCRELX, {Form::Relative32, true}},
  };
  static const std::map<std::uint32_t, Reference> arm = {
      {R_AARCH64_ABS64, {Form::Absolute64}},
      {R_AARCH64_PREL64, {Form::Relative64}},
      {R_AARCH64_PREL32, {Form::Relative32}},
      {R_AARCH64_CALL26, {Form::Call26}},
      {R_AARCH64_JUMP26, {Form::Call26}},
      {R_AARCH64_ADR_PREL_PG_HI21, {Form::PageHigh21}},
      {R_AARCH64_ADD_ABS_LO12_NC, {Form::PageLow12}},
      {R_AARCH64_LDST8_ABS_LO12_NC, {Form::Load12, false, 0}},
      {R_AARCH64_LDST16_ABS_LO12_NC, {Form::Load12, false, 1}},
      {R_AARCH64_LDST32_ABS_LO12_NC, {Form::Load12, false, 2}},
      {R_AARCH64_LDST64_ABS_LO12_NC, {Form::Load12, false, 3}},
      {R_AARCH64_LDST128_ABS_LO12_NC, {Form::Load12, false, 4}},
      {R_AARCH64_ADR_GOT_PAGE, {Form::PageHigh21, true}},
      {R_AARCH64_LD64_GOT_LO12_NC, {Form::Load12, true, 3}},
  };
  const auto& table = machine == EM_X86_64 ? x86 : arm;
  const auto found = table.find(type);
  return found == table.end() ? nullptr : &found->second;
}

std::uint64_t width(Form form) { return form == Form::Absolute64 || form == Form::Relative64 ? 8 : 4; }

// `place` and `to`: addresses. The addend is in `to`.
void resolve(char* at, const Reference& reference, std::uint64_t place, std::uint64_t to) {
  const auto distance = static_cast<std::int64_t>(to - place);
  const auto within = [&](std::int64_t value, int bits) {
    if (value < -(std::int64_t{1} << (bits - 1)) || value >= std::int64_t{1} << (bits - 1))
      refuse("a reference reaches too far");
    return static_cast<std::uint32_t>(value) & static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
  };
  const auto instruction = peek<std::uint32_t>;
  switch (reference.form) {
    case Form::Absolute64: return poke(at, to);
    case Form::Relative64: return poke(at, static_cast<std::uint64_t>(distance));
    case Form::Relative32: return poke(at, within(distance, 32));
    case Form::Call26:
      if (distance % 4 != 0) refuse("a call of no instruction");
      return poke(at, (instruction(at) & 0xfc000000u) | within(distance / 4, 26));
    case Form::PageHigh21: {
      const std::uint32_t pages = within(static_cast<std::int64_t>((to >> 12) - (place >> 12)), 21);
      return poke(at, (instruction(at) & 0x9f00001fu) | (pages & 3) << 29 | pages >> 2 << 5);
    }
    case Form::PageLow12:
      return poke(at, (instruction(at) & 0xffc003ffu) | static_cast<std::uint32_t>(to & 0xfff) << 10);
    case Form::Load12:
      if ((to & ((std::uint64_t{1} << reference.scale) - 1)) != 0) refuse("a load of what is not aligned");
      return poke(
          at, (instruction(at) & 0xffc003ffu) | static_cast<std::uint32_t>((to & 0xfff) >> reference.scale) << 10);
  }
}

// A jump to the address that stands at `slot`.
void write_stub(char* at, std::uint16_t machine, std::uint64_t place, std::uint64_t slot) {
  if (machine == EM_X86_64) {
    poke<std::uint16_t>(at, 0x25ff);                     // jmp [rip + distance]
    return resolve(at + 2, {Form::Relative32}, place + 6, slot);
  }
  poke<std::uint32_t>(at, 0x90000010);                   // adrp x16, slot
  poke<std::uint32_t>(at + 4, 0xf9400210);               // ldr x16, [x16, slot]
  poke<std::uint32_t>(at + 8, 0xd61f0200);               // br x16
  resolve(at, {Form::PageHigh21}, place, slot);
  resolve(at + 4, {Form::Load12, false, 3}, place + 4, slot);
}

}  // namespace

// The tables of one object; nothing outside its bytes is looked at.
class Linker::Reader {
 public:
  explicit Reader(const std::string& object) : object_(object) {
    header_ = at<Elf64_Ehdr>(0);
    constexpr std::array<unsigned char, 6> magic = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB};
    if (std::memcmp(header_.e_ident, magic.data(), magic.size()) != 0 || header_.e_type != ET_REL)
      refuse("these bytes are no object file");
    if (header_.e_machine != EM_X86_64 && header_.e_machine != EM_AARCH64)
      refuse(fmt::format("machine {} is not known", header_.e_machine));
    for (std::uint64_t k = 0; k < header_.e_shnum; ++k)
      sections_.push_back(at<Elf64_Shdr>(sum(header_.e_shoff, k * sizeof(Elf64_Shdr))));
  }

  std::uint16_t machine() const { return header_.e_machine; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  const Elf64_Shdr& section(std::uint64_t k) const {
    if (k >= sections_.size()) refuse("a section is missing");
    return sections_[k];
  }
  std::string_view bytes(const Elf64_Shdr& section) const { return bytes(section.sh_offset, section.sh_size); }
  template <class T> std::vector<T> table(const Elf64_Shdr& section) const {
    const std::string_view all = bytes(section);
    std::vector<T> rows(all.size() / sizeof(T));
    if (!rows.empty()) std::memcpy(static_cast<void*>(rows.data()), all.data(), rows.size() * sizeof(T));
    return rows;
  }
  std::string name(const Elf64_Shdr& strings, std::uint32_t from) const {
    const std::string_view all = bytes(strings);
    if (from >= all.size()) refuse("a name is missing");
    const std::string_view rest = all.substr(from);
    if (rest.find('\0') == rest.npos) refuse("a name has no end");
    return std::string(rest.substr(0, rest.find('\0')));
  }

 private:
  template <class T> T at(std::uint64_t offset) const { return peek<T>(bytes(offset, sizeof(T)).data()); }
  std::string_view bytes(std::uint64_t from, std::uint64_t count) const {
    if (from > object_.size() || count > object_.size() - from) refuse("an object file was cut");
    return std::string_view(object_).substr(from, count);
  }
  static std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
    if (a > UINT64_MAX - b) refuse("an object file was cut");
    return a + b;
  }

  const std::string& object_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
};

Linker::Linker(std::span<const std::string> objects, std::uint64_t page) {
  for (const std::string& object : objects) read(object);
  name_symbols();
  lay_out(page);
}

void Linker::read(const std::string& object) {
  const Reader reader(object);
  if (machine_ != 0 && machine_ != reader.machine()) refuse("objects for two machines");
  machine_ = reader.machine();
  std::map<std::uint64_t, int> loaded;                   // sections of the object: positions in sections_
  const std::vector<Elf64_Shdr>& headers = reader.sections();
  for (std::uint64_t k = 0; k < headers.size(); ++k) {
    const Elf64_Shdr& h = headers[k];
    if ((h.sh_flags & SHF_ALLOC) == 0) continue;
    const std::uint64_t alignment = std::max<std::uint64_t>(h.sh_addralign, 1);
    if (!std::has_single_bit(alignment) || alignment > 4096) refuse("a section with an odd alignment");
    if ((h.sh_flags & SHF_TLS) != 0) refuse("variables of threads");
    if (h.sh_size > largest_image) refuse("a section that is too large");
    const Kind kind = (h.sh_flags & SHF_EXECINSTR) != 0 ? Code : (h.sh_flags & SHF_WRITE) != 0 ? Data : Constants;
    loaded.emplace(k, static_cast<int>(sections_.size()));
    sections_.push_back(
        {h.sh_type == SHT_NOBITS ? std::string_view() : reader.bytes(h), h.sh_size, alignment, kind, 0});
  }
  const std::size_t first = all_.size();
  std::uint64_t symbols_of = 0;
  for (std::uint64_t k = 0; k < headers.size(); ++k) {
    if (headers[k].sh_type != SHT_SYMTAB) continue;
    if (symbols_of != 0) refuse("two tables of symbols");
    symbols_of = k;
    const Elf64_Shdr& strings = reader.section(headers[k].sh_link);
    for (const Elf64_Sym& s : reader.table<Elf64_Sym>(headers[k])) {
      const auto home = loaded.find(s.st_shndx);
      const bool global = ELF64_ST_BIND(s.st_info) != STB_LOCAL;
      if (global && s.st_shndx != SHN_UNDEF && home == loaded.end()) refuse("a symbol without a place");
      if (home != loaded.end() && s.st_value > sections_[static_cast<std::size_t>(home->second)].size)
        refuse("a symbol behind its section");
      all_.push_back({global ? reader.name(strings, s.st_name) : std::string(),
          home == loaded.end() ? -1 : home->second, s.st_value});
    }
  }
  for (const Elf64_Shdr& h : headers) {
    if (h.sh_type != SHT_RELA && h.sh_type != SHT_REL) continue;
    const auto patched = loaded.find(h.sh_info);
    if (patched == loaded.end()) continue;
    if (h.sh_type == SHT_REL || h.sh_link != symbols_of) refuse("references of an unknown kind");
    const Section& section = sections_[static_cast<std::size_t>(patched->second)];
    for (const Elf64_Rela& r : reader.table<Elf64_Rela>(h)) {
      const Relocation relocation{patched->second, r.r_offset, static_cast<std::uint32_t>(ELF64_R_TYPE(r.r_info)),
          r.r_addend, first + ELF64_R_SYM(r.r_info)};
      const Reference* reference = reference_of(machine_, relocation.type);
      if (!reference) refuse(fmt::format("references of kind {}", relocation.type));
      if (relocation.symbol >= all_.size()) refuse("a reference to a missing symbol");
      if (section.bytes.size() < width(reference->form) || r.r_offset > section.bytes.size() - width(reference->form))
        refuse("a reference outside its section");
      relocations_.push_back(relocation);
    }
  }
}

// Undefined names that another object defines become that definition.
void Linker::name_symbols() {
  std::map<std::string_view, std::size_t> defined;
  for (std::size_t k = 0; k < all_.size(); ++k)
    if (const Symbol& s = all_[k]; !s.name.empty() && s.section >= 0 && !defined.emplace(s.name, k).second)
      refuse("`" + s.name + "` is defined twice");
  for (Relocation& r : relocations_) {
    const Symbol& s = all_[r.symbol];
    if (s.section >= 0) continue;
    if (s.name.empty()) refuse("a reference to nothing");
    if (const auto found = defined.find(s.name); found != defined.end()) r.symbol = found->second;
  }
}

bool Linker::has_slot(const Relocation& relocation) const {
  return all_[relocation.symbol].section < 0 || reference_of(machine_, relocation.type)->slot;
}

void Linker::lay_out(std::uint64_t page) {
  for (const Relocation& r : relocations_)
    if (has_slot(r)) slots_.emplace(r.symbol, slots_.size());
  std::uint64_t end = 0;
  for (const Kind kind : {Code, Constants, Data}) {
    for (Section& s : sections_) {
      if (s.kind != kind) continue;
      s.offset = rounded_up(end, s.alignment);
      end = s.offset + s.size;
      if (end > largest_image) refuse("it is too large");
    }
    std::uint64_t& table = kind == Code ? stubs_ : table_;
    if (kind != Data)
      table = rounded_up(end, stub_bytes), end = table + slots_.size() * (kind == Code ? stub_bytes : 8);
    end_[kind] = end = rounded_up(end, page);
  }
  for (const Symbol& s : all_)
    if (!s.name.empty() && s.section >= 0)
      symbols_.emplace(s.name, sections_[static_cast<std::size_t>(s.section)].offset + s.value);
}

std::uint64_t Linker::stub(std::size_t symbol) const { return stubs_ + slots_.at(symbol) * stub_bytes; }
std::uint64_t Linker::slot(std::size_t symbol) const { return table_ + slots_.at(symbol) * 8; }

void Linker::write(std::span<char> memory, std::uint64_t address, const Find& find) const {
  if (memory.size() < size()) refuse("the memory is too small");
  for (const Section& s : sections_)
    if (!s.bytes.empty()) std::memcpy(memory.data() + s.offset, s.bytes.data(), s.bytes.size());
  for (const auto& [symbol, position] : slots_) {
    const Symbol& s = all_[symbol];
    const std::uint64_t to =
        s.section >= 0 ? address + sections_[static_cast<std::size_t>(s.section)].offset + s.value : find(s.name);
    if (to == 0) refuse("it calls `" + s.name + "`, which this process does not have");
    poke(memory.data() + slot(symbol), to);
    write_stub(memory.data() + stub(symbol), machine_, address + stub(symbol), address + slot(symbol));
  }
  for (const Relocation& r : relocations_) {
    const Symbol& s = all_[r.symbol];
    const Reference& reference = *reference_of(machine_, r.type);
    const std::uint64_t to = reference.slot ? slot(r.symbol)
        : s.section < 0                     ? stub(r.symbol)
                                            : sections_[static_cast<std::size_t>(s.section)].offset + s.value;
    const std::uint64_t at = sections_[static_cast<std::size_t>(r.section)].offset + r.at;
    resolve(memory.data() + at, reference, address + at, address + to + static_cast<std::uint64_t>(r.addend));
  }
}

}  // namespace tilec::runtime
