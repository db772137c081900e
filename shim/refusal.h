// Functions that exist but do not work: how they answer.
#ifndef MCCS_SHIM_REFUSAL_H_
#define MCCS_SHIM_REFUSAL_H_

namespace mccs::shim {

// Remembers "NAME is not supported by MCCS: REASON" for ncclGetLastError, spoils the thread's open
// group, and gives ncclInvalidUsage. Under NCCL_DEBUG=WARN says it once per function, on
// stderr or in NCCL_DEBUG_FILE.
int Refuse(const char* function, const char* reason);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_REFUSAL_H_
