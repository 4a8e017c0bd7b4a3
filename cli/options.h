// The command line as a value. CLI11 is slow to compile, so one file includes it and every command reads this struct.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/derive.h"

namespace tilec::cli {

struct Options {
  Options();  // these six are long, so they are compiled once, in a .cpp
  Options(const Options&);
  Options(Options&&) noexcept;
  Options& operator=(const Options&);
  Options& operator=(Options&&) noexcept;
  ~Options();

  std::string command;                                 // `show` when none is written: `tilec f.tile --emit=loops`
  std::vector<std::string> words;                      // what is neither option nor command: files, codes, NAME=VALUE
  std::vector<std::pair<std::string, std::string>> forms;  // of commands that run nothing: NAME=2x3xf32, inputs and
                                                           // their shapes
  std::optional<std::string> function;
  std::map<std::string, std::int64_t> sizes;
  std::map<std::string, std::int64_t> ranks;           // --rank: how many dimensions a pack stands for
  // numbers, and names of functions and aggregations
  std::vector<std::pair<std::string, std::variant<double, std::string>>> defines;
  std::vector<std::string> include;                    // folders where imports are found
  std::vector<std::string> warnings;                   // what follows -W
  std::vector<codegen::Derivative> derivatives;        // --grad, --forward and --vmap in order, with their --of and
                                                       // --wrt
  codegen::Derivative gradient;                        // --of and --wrt where neither is written: for what makes a
                                                       // gradient by itself
  std::string target = "cpu";
  bool target_given = false;
  std::string stage;                                   // --emit
  std::string plan;                                    // a file; empty: all is chosen
  std::string output, dump_to;
  std::optional<std::string> filter;                   // of test
  bool time = false, check = false, grad_check = false, stats = false, in_place = false, json = false, quiet = false,
       verbose = false;
  std::optional<std::uint64_t> check_elements;         // --check=4096: where all would take long; --check=all: the
                                                       // largest number
  std::optional<std::int64_t> room;                    // of build --vjp: bytes that forward may keep
  std::optional<std::string> name;                     // of build: what the function is called in C
  bool multi_target = false;                           // of build: machine code for several CPUs
  bool vjp = false;                                    // of build: the last derivative and what it is of as a pair
  bool checked = false;                                // indices out of range are errors
  int threads = 0;
  double seconds = 2;                                   // of bench, and of tune (--budget)
  std::vector<std::string> peers;                       // of bench: what --vs names, `torch` or `torch=EXPRESSION`
  bool json_output = false;                            // of bench
  bool measure = false;                                // of report
  std::uint64_t seed = 0;
};

// Wrong usage: exit status 2.
struct UsageError { std::string message, hint; };

// The text to print and stop, for --help and --version; else the options.
struct Parsed { Options options; std::optional<std::string> print; };
Parsed parse_options(int argc, char** argv);           // throws UsageError

// What `--help` lists, for shells and for the manual.
struct OptionHelp { std::vector<std::string> names; std::string description; bool takes_value = false; };
struct CommandHelp { std::string name; std::vector<OptionHelp> options; };
std::vector<CommandHelp> all_help();                   // `show` first, whose name nobody writes
std::string overview();                                // as `tilec --help` prints it

}  // namespace tilec::cli
