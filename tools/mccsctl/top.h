// `mccsctl top`: rates of communicators, refreshed in place until Ctrl-C, or printed once.
#ifndef MCCS_TOOLS_MCCSCTL_TOP_H_
#define MCCS_TOOLS_MCCSCTL_TOP_H_

#include <CLI/CLI.hpp>
#include <string>

#include "tools/mccsctl/object_commands.h"
#include "tools/mccsctl/options.h"

namespace mccs {

// LIFETIME: `options` and `action` outlive the parsing; see object_commands.h.
void DeclareTop(CLI::App* app, Options* options, Action* action);

// Adds the option --interval.
void AddIntervalOption(CLI::App* command, const std::string& description, Options* options);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_TOP_H_
