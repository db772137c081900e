// Prints a controller's reply or error, and returns the exit status.
#ifndef MCCS_TOOLS_MCCSCTL_ANSWER_H_
#define MCCS_TOOLS_MCCSCTL_ANSWER_H_

#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/mccsctl/commands.h"
#include "tools/mccsctl/render.h"

namespace mccs {

// Prints the error on stderr and returns `status`.
inline int Fail(const absl::Status& why, int status = kExitFailed) {
  std::fprintf(stderr, "mccsctl: %s\n", std::string(why.message()).c_str());
  return status;
}

inline int Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : kExitFailed;
}

// Prints `answer` in the selected format, or its error. Returns the exit status.
template <typename Reply>
int Show(const Options& options, const absl::StatusOr<Reply>& answer,
         const std::function<std::string(const Reply&)>& table) {
  if (!answer.ok()) return Fail(answer.status());
  switch (options.output) {
    case Output::kJson:
      return Print(RenderJson(*answer));
    case Output::kYaml:
      return Print(RenderYaml(*answer));
    case Output::kTable:
    case Output::kWide:
      break;
  }
  return Print(table(*answer));
}

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_ANSWER_H_
