// Options of mccsctl's command line, and exit statuses.
#ifndef MCCS_TOOLS_MCCSCTL_OPTIONS_H_
#define MCCS_TOOLS_MCCSCTL_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mccs {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
// Of `diff`: 1 means that there are differences.
inline constexpr int kExitDifferences = 1;
inline constexpr int kExitDiffFailed = 3;

enum class Output { kTable, kWide, kJson, kYaml };

struct Options {
  std::string controller = "127.0.0.1:7500";
  Output output = Output::kTable;
  std::string user;  // recorded in the audit log: "alice@login1"

  // Used by some commands only.
  std::string id;
  std::string reason;
  std::vector<std::string> names;
  std::vector<std::string> files;
  bool dry_run = false;
  uint32_t limit = 50;
  double interval_s = 1;
  bool once = false;
};

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_OPTIONS_H_
