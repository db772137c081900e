// What ncclGetLastError answers: the failure of one communicator, or the last one of the process,
// whichever thread or communicator met it.
//
// A failure that no call of the program returns (a peer died while a stream waits) is written into
// the communicator's region by the daemon, and this process learns of it when it looks. It looks
// when the program asks for an error or meets one, and before a communicator ends.
// THREAD: any.
#ifndef MCCS_SHIM_LAST_ERROR_H_
#define MCCS_SHIM_LAST_ERROR_H_

#include <nccl.h>

#include "shim/communicator.h"

namespace mccs::shim {

// The failure of the communicator where it has one; else the thread's last error, else the
// process's. NULL: the last failure of the process; "" if there was none.
// LIFETIME: until the thread's next call, or its end.
const char* LastErrorOf(ncclComm_t handle);

// Remembers the communicator's failure as the process's last, once, where it has one. What the
// program did itself (abort, revoke) is none.
void NoteFailureOf(Communicator& comm);
// The same of all communicators. What a call is about to return comes after these.
void NoteFailures();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_LAST_ERROR_H_
