// MCCS_FALLBACK: whether NCCL's calls of this process may go to the real library (nccl) or not
// (error, the default), and which way they have gone. The process takes one way, once, and says in
// one line which it was.
//
//              MCCS_FALLBACK=error                  GetUniqueId, … : the daemon answers
//   (unasked) ──────────────────────────► kOwn ◄──────────────────────────────────┐
//       │                                   ▲  init with an id that MCCS made      │
//       │ MCCS_FALLBACK=nccl                └──────────────────────────── kUndecided
//       └──────────────────────────────────────────────────────────────────► │
//                                           ┌─────────────────────────────────┘
//                                           ▼  no daemon, or an init with another id
//                                         kReal
//
// A communicator's id decides for all its ranks: who makes it goes by whether there is a daemon,
// who is given one follows it. So all ranks go the same way, or those that cannot are told, before
// the real library could wait for them: it would wait for ever.
//
// What the entry points (entry_points.h) ask; nothing here is called by other code.
#ifndef MCCS_SHIM_FALLBACK_H_
#define MCCS_SHIM_FALLBACK_H_

namespace mccs::shim {

enum class Way { kUnasked, kUndecided, kOwn, kReal };

// THREAD: any.
Way CurrentWay();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_FALLBACK_H_
