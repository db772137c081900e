// Commands on operators' objects: apply, diff, delete, drain, audit, and the object kinds of get
// and describe.
#ifndef MCCS_TOOLS_MCCSCTL_OBJECT_COMMANDS_H_
#define MCCS_TOOLS_MCCSCTL_OBJECT_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/mccsctl/options.h"

namespace mccs {

// The selected command. Main runs it after parsing the whole command line. Returns the exit status.
using Action = std::function<int()>;

// LIFETIME (all functions): `options` and `action` outlive `app`'s parsing.
void DeclareApply(CLI::App* app, Options* options, Action* action);
void DeclareDiff(CLI::App* app, Options* options, Action* action);
void DeclareDelete(CLI::App* app, Options* options, Action* action);
// `drain` and `undrain`.
void DeclareDrain(CLI::App* app, Options* options, Action* action);
void DeclareAudit(CLI::App* app, Options* options, Action* action);
// Adds tenants, policies, topologies and drains as subcommands of `get`.
void DeclareGetObjects(CLI::App* get, Options* options, Action* action);
void DeclareDescribeObjects(CLI::App* describe, Options* options, Action* action);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_OBJECT_COMMANDS_H_
