#include "shim/refusal.h"

#include "absl/strings/str_cat.h"
#include "shim/error_text.h"
#include "shim/group.h"

namespace mccs::shim {

int Refuse(const char* function, const char* reason) {
  const absl::Status status =
      absl::UnimplementedError(absl::StrCat(function, " is not supported by MCCS: ", reason));
  if (Group::OfThisThread().open()) Group::OfThisThread().AddError(status);
  return Report(status);
}

}  // namespace mccs::shim
