// The world of who calls mccs-lab, and the labs that are up in it.
#ifndef MCCS_LAB_CALLER_H_
#define MCCS_LAB_CALLER_H_

#include <string>

#include "absl/status/statusor.h"
#include "lab/environment.h"
#include "lab/lab_directory.h"
#include "lab/lab_state.h"

namespace mccs::lab {

// What all commands are given.
struct Caller {
  Environment environment;
  LabDirectories directories;
};

// kNotFound names the labs that are up.
absl::StatusOr<LabState> FindLab(const Caller& caller, const std::string& name);
// kUnavailable while it is still starting.
absl::StatusOr<LabState> FindReadyLab(const Caller& caller, const std::string& name);

}  // namespace mccs::lab

#endif  // MCCS_LAB_CALLER_H_
