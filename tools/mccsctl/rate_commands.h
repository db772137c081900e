// Commands that measure rates: `mccsctl top`, refreshed in place until Ctrl-C or printed once, and
// `mccsctl explain`, the reasons for a communicator's strategy and the rates of its flows.
#ifndef MCCS_TOOLS_MCCSCTL_RATE_COMMANDS_H_
#define MCCS_TOOLS_MCCSCTL_RATE_COMMANDS_H_

#include <CLI/CLI.hpp>

#include "tools/mccsctl/object_commands.h"
#include "tools/mccsctl/options.h"

namespace mccs {

// LIFETIME (both): `options` and `action` outlive the parsing; see object_commands.h.
void DeclareTop(CLI::App* app, Options* options, Action* action);
void DeclareExplain(CLI::App* app, Options* options, Action* action);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_RATE_COMMANDS_H_
