#include "shim/calls/unsupported.h"

#include <mutex>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "shim/config/diagnostics.h"
#include "shim/process/group.h"
#include "shim/process/last_error.h"

namespace mccs::shim {
namespace {

bool IsFirstCallOf(const char* function) {
  static std::mutex mutex;
  static auto* const seen = new std::set<std::string_view>;  // never destroyed
  std::lock_guard lock(mutex);
  return seen->insert(function).second;
}

}  // namespace

int ReportUnsupported(const char* function, const char* reason) {
  const absl::Status status =
      absl::UnimplementedError(absl::StrCat(function, " is not supported by MCCS: ", reason));
  if (Group::OfThisThread().open()) Group::OfThisThread().AddError(status);
  // On stderr, because a program may replace ncclGetLastError (nccl-tests does) and print its table
  // on stdout.
  const std::string_view text(status.message().data(), status.message().size());
  if (IsLogged(Verbosity::kWarn) && IsFirstCallOf(function)) {
    LogLineTo(DebugStreamIsFile() ? DebugStream() : stderr, Verbosity::kWarn, text);
  }
  return StoreLastError(status);
}

}  // namespace mccs::shim
