// `mccsctl explain`: the reasons for a communicator's strategy, and the rates of its flows.
#ifndef MCCS_TOOLS_MCCSCTL_EXPLAIN_H_
#define MCCS_TOOLS_MCCSCTL_EXPLAIN_H_

#include <CLI/CLI.hpp>

#include "tools/mccsctl/object_commands.h"
#include "tools/mccsctl/options.h"

namespace mccs {

// LIFETIME: `options` and `action` outlive the parsing; see object_commands.h.
void DeclareExplain(CLI::App* app, Options* options, Action* action);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_EXPLAIN_H_
