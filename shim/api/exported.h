// Declares a function as part of the library's interface.
//
// A file defines pncclX as usual, enclosed by these two macros. The exported names ncclX (weak, so
// that a profiler may replace it) and pncclX (strong) are an entry point (entry_points.h). It jumps
// to our function or, if the process has fallen back, to the real library's. So our own pncclX is
// compiled under another name, mccs_own_X.
#ifndef MCCS_SHIM_API_EXPORTED_H_
#define MCCS_SHIM_API_EXPORTED_H_

#include "shim/own_names.h"  // generated from entry_points.txt

#define MCCS_EXPORT extern "C" __attribute__((visibility("hidden")))
// Fails to compile for a name that entry_points.txt lacks.
#define MCCS_ALSO_WEAK(name) static_assert(mccs::shim::kEntry_##name < mccs::shim::kEntries)

#endif  // MCCS_SHIM_API_EXPORTED_H_
