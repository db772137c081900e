// Declares a function as part of the library's interface.
//
// MCCS_EXPORT(Result, ncclX)(…) { … } defines pncclX. The exported names ncclX (weak, so that a
// profiler may replace it) and pncclX (strong) are an entry point (entry_points.h). It jumps to our
// function or, if the process has fallen back, to the real library's. So our own pncclX is compiled
// under another name, mccs_own_X.
#ifndef MCCS_SHIM_API_EXPORTED_H_
#define MCCS_SHIM_API_EXPORTED_H_

#include "shim/own_names.h"  // generated from entry_points.txt

// Fails to compile for a name that entry_points.txt lacks.
#define MCCS_EXPORT(Result, name)                                  \
  static_assert(mccs::shim::kEntry_##name < mccs::shim::kEntries); \
  extern "C" __attribute__((visibility("hidden"))) Result p##name

namespace mccs::shim {

// The return of a function that MCCS does not support: stores "NAME is not supported by MCCS:
// REASON" for ncclGetLastError, adds the error to the thread's open group, and returns
// ncclInvalidUsage. Under NCCL_DEBUG=WARN logs it once per function, on stderr or in
// NCCL_DEBUG_FILE.
int ReportUnsupported(const char* function, const char* reason);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_API_EXPORTED_H_
