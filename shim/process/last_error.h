// The result of ncclGetLastError: the failure of one communicator, or the last failure of the
// process, from any thread or communicator.
//
// The daemon writes a failure that no call returns (a peer died while a stream waits) into the
// communicator's region. This process reads the region when the program asks for an error or gets
// one, and before a communicator ends.
// THREAD: any.
#ifndef MCCS_SHIM_PROCESS_LAST_ERROR_H_
#define MCCS_SHIM_PROCESS_LAST_ERROR_H_

#include <nccl.h>

#include <string_view>

#include "absl/status/status.h"
#include "shim/submit/communicator.h"

namespace mccs::shim {

// Store the message as the last error of the thread and of the process and return the code; Report
// also logs it under NCCL_DEBUG=WARN. An ok status returns ncclSuccess and stores nothing.
ncclResult_t StoreLastError(const absl::Status& status);
ncclResult_t Report(const absl::Status& status);

// The failure of the communicator if it has one; else the thread's last error, else the process's.
// NULL: the last failure of the process; "" if there was none.
// LIFETIME: until the thread's next call, or its end.
const char* LastErrorMessage(ncclComm_t handle);

// Stores the communicator's failure, if any, as the process's last error. Does so once, and not for
// an end that the program itself requested (abort, revoke).
void RecordFailure(Communicator& comm);
// The same for all communicators. Call it before storing the error that a call returns.
void RecordFailures();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_PROCESS_LAST_ERROR_H_
