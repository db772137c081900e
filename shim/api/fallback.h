// MCCS_FALLBACK: whether NCCL calls of this process may go to the real library (nccl) or not
// (error, the default), and the current choice. The process chooses once, and logs the choice in
// one line.
//
//              MCCS_FALLBACK=error                  GetUniqueId, … : the daemon answers
//   (initial) ──────────────────────────► kOwn ◄──────────────────────────────────┐
//       │                                   ▲  init with an id that MCCS made      │
//       │ MCCS_FALLBACK=nccl                └──────────────────────────── kUndecided
//       └──────────────────────────────────────────────────────────────────► │
//                                           ┌─────────────────────────────────┘
//                                           ▼  no daemon, or an init with another id
//                                         kReal
//
// A communicator's id decides for all its ranks. The process that makes the id checks for a daemon;
// processes that receive the id follow it. So all ranks use the same library, or fail with an error
// before the real library waits for the missing ranks without limit.
//
// Only the entry points (entry_points.h) call these functions.
#ifndef MCCS_SHIM_API_FALLBACK_H_
#define MCCS_SHIM_API_FALLBACK_H_

namespace mccs::shim {

enum class Backend { kUnread, kUndecided, kOwn, kReal };

// THREAD: any.
Backend CurrentBackend();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_API_FALLBACK_H_
