// The environment of the mccs-lab command, and the running labs that it can use.
#ifndef MCCS_LAB_CALLER_H_
#define MCCS_LAB_CALLER_H_

#include <string>

#include "absl/status/statusor.h"
#include "lab/environment.h"
#include "lab/lab_directory.h"
#include "lab/lab_state.h"

namespace mccs::lab {

// Context of all commands.
struct Caller {
  Environment environment;
  LabDirectories directories;
};

// kNotFound: the message lists the running labs.
absl::StatusOr<LabState> FindLab(const Caller& caller, const std::string& name);
// kUnavailable: the lab is still starting.
absl::StatusOr<LabState> FindReadyLab(const Caller& caller, const std::string& name);

}  // namespace mccs::lab

#endif  // MCCS_LAB_CALLER_H_
