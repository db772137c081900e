#include "lab/caller.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs::lab {

absl::StatusOr<LabState> FindLab(const Caller& caller, const std::string& name) {
  MCCS_RETURN_IF_ERROR(ValidateLabName(name));
  MCCS_ASSIGN_OR_RETURN(bool held, caller.directories.IsLocked(name));
  if (!held) {
    std::string others;
    for (const std::string& other : caller.directories.RunningNames())
      absl::StrAppend(&others, " ", other);
    return absl::NotFoundError(absl::StrCat(
        "lab '", name, "' does not exist; ",
        others.empty() ? "start one with 'mccs-lab up'" : absl::StrCat("running labs:", others)));
  }
  return ReadState(caller.directories.PathsOf(name));
}

absl::StatusOr<LabState> FindReadyLab(const Caller& caller, const std::string& name) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindLab(caller, name));
  if (!lab.ready)
    return absl::UnavailableError(absl::StrCat("lab '", name, "' is still starting; retry later"));
  return lab;
}

}  // namespace mccs::lab
