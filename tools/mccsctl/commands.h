// The command line of mccsctl: its options, exit statuses and commands.
#ifndef MCCS_TOOLS_MCCSCTL_COMMANDS_H_
#define MCCS_TOOLS_MCCSCTL_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/mccsctl/controller_client.h"

namespace mccs {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
// Of `diff`: 1 means that there are differences.
inline constexpr int kExitDifferences = 1;
inline constexpr int kExitDiffFailed = 3;

enum class Output { kTable, kWide, kJson, kYaml };

struct Options {
  ControllerTarget controller;
  Output output = Output::kTable;
  std::string user;  // recorded in the audit log: "alice@login1"

  // Used by some commands only.
  std::string id;
  std::string reason;
  std::vector<std::string> names;
  std::vector<std::string> files;
  bool dry_run = false;
  uint32_t limit = 50;
  uint32_t operations = 100;
  bool chrome = false;  // trace: the Trace Event format instead of `output`
  double interval_s = 1;
  bool once = false;

  // The selected command. Main runs it after parsing the whole command line. Returns the exit
  // status.
  std::function<int()> run;
};

// THROWS: CLI::ValidationError (wrong usage) for an unknown format. `more`: a format that the
// caller accepts in addition; empty: none.
inline Output ParseOutput(const std::string& word, const std::string& more = "") {
  if (word == "table") return Output::kTable;
  if (word == "wide") return Output::kWide;
  if (word == "json") return Output::kJson;
  if (word == "yaml") return Output::kYaml;
  const std::string expected =
      more.empty() ? "table, wide, json or yaml" : "table, wide, json, yaml or " + more;
  throw CLI::ValidationError("--output",
                             "invalid output format \"" + word + "\": expected " + expected);
}

// Makes `run` the selected command if `command` is on the command line.
inline void Select(CLI::App* command, Options* options, std::function<int()> run) {
  command->callback([options, run = std::move(run)] { options->run = run; });
}

// Adds an option in seconds, within `range`. Accepts "4s" as "4".
inline CLI::Option* AddSecondsOption(CLI::App* command, const std::string& name,
                                     const CLI::Range& range, const std::string& description,
                                     std::function<void(double)> set) {
  const auto without_unit = [](std::string text) {
    if (text.ends_with("s")) text.pop_back();
    return text;
  };
  return command->add_option_function<double>(name, std::move(set), description)
      ->type_name("SECONDS")
      ->transform(without_unit)
      ->check(range);
}

// ---- Commands on operators' objects (object_commands.cc) ----------------------------------------

// LIFETIME (all functions): `options` outlives `app`'s parsing.
void DeclareApply(CLI::App* app, Options* options);
void DeclareDiff(CLI::App* app, Options* options);
void DeclareDelete(CLI::App* app, Options* options);
// `drain` and `undrain`.
void DeclareDrain(CLI::App* app, Options* options);
void DeclareAudit(CLI::App* app, Options* options);
// Adds tenants, policies, topologies and drains as subcommands of `get`.
void DeclareGetObjects(CLI::App* get, Options* options);
void DeclareDescribeObjects(CLI::App* describe, Options* options);

// ---- Commands that measure rates (rate_commands.cc) ---------------------------------------------

// `mccsctl top`, refreshed in place until Ctrl-C or printed once.
void DeclareTop(CLI::App* app, Options* options);
// `mccsctl explain`: the reasons for a communicator's strategy and the rates of its flows.
void DeclareExplain(CLI::App* app, Options* options);

// ---- Traces of operations (trace_command.cc) ----------------------------------------------------

void DeclareTrace(CLI::App* app, Options* options);

// ---- Shell completion (completion.cc) -----------------------------------------------------------

// A script for bash, generated from mccsctl's own options. Completes subcommands, options, formats
// after -o, files after -f, and names of objects from the controller.
std::string BashCompletion(const CLI::App& app);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_COMMANDS_H_
