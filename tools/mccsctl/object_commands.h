// The commands on operators' objects: apply, diff, delete, drain, audit, and what get and describe
// show of them.
#ifndef MCCS_TOOLS_MCCSCTL_OBJECT_COMMANDS_H_
#define MCCS_TOOLS_MCCSCTL_OBJECT_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/mccsctl/options.h"

namespace mccs {

// What the command line asked for; run when all of it is read. Returns the exit status.
using Action = std::function<int()>;

// LIFETIME, of all: `options` and `action` outlive `app`'s parsing.
void DeclareApply(CLI::App* app, Options* options, Action* action);
void DeclareDiff(CLI::App* app, Options* options, Action* action);
void DeclareDelete(CLI::App* app, Options* options, Action* action);
// `drain` and `undrain`.
void DeclareDrain(CLI::App* app, Options* options, Action* action);
void DeclareAudit(CLI::App* app, Options* options, Action* action);
// `get`: tenants, policies and topologies below the command `get`.
void DeclareGetObjects(CLI::App* get, Options* options, Action* action);
void DeclareDescribeObjects(CLI::App* describe, Options* options, Action* action);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_OBJECT_COMMANDS_H_
