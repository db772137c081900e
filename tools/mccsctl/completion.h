// A script by which a shell completes mccsctl's command line, made from the command line itself.
#ifndef MCCS_TOOLS_MCCSCTL_COMPLETION_H_
#define MCCS_TOOLS_MCCSCTL_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>

namespace mccs {

// For bash: subcommands, options, formats after -o, files after -f, and the names of objects as the
// controller knows them.
std::string BashCompletion(const CLI::App& app);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_COMPLETION_H_
