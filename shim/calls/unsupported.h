// How exported functions that MCCS does not support return.
#ifndef MCCS_SHIM_CALLS_UNSUPPORTED_H_
#define MCCS_SHIM_CALLS_UNSUPPORTED_H_

namespace mccs::shim {

// Stores "NAME is not supported by MCCS: REASON" for ncclGetLastError, adds the error to the
// thread's open group, and returns ncclInvalidUsage. Under NCCL_DEBUG=WARN logs it once per
// function, on stderr or in NCCL_DEBUG_FILE.
int ReportUnsupported(const char* function, const char* reason);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CALLS_UNSUPPORTED_H_
