// Shell completion script, generated from mccsctl's own options.
#ifndef MCCS_TOOLS_MCCSCTL_COMPLETION_H_
#define MCCS_TOOLS_MCCSCTL_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>

namespace mccs {

// For bash. Completes subcommands, options, formats after -o, files after -f, and names of objects
// from the controller.
std::string BashCompletion(const CLI::App& app);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_COMPLETION_H_
