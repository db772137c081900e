// The one state of this library in its process: CUDA's functions, the session with the daemon, the
// live communicators. Made at the first call, never destroyed: threads and streams may be at work
// while the process exits.
#ifndef MCCS_SHIM_PROCESS_H_
#define MCCS_SHIM_PROCESS_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shim/driver_api.h"
#include "shim/fence.h"
#include "shim/handle_table.h"
#include "shim/session.h"
#include "shim/user_operators.h"
#include "shim/virtual_allocations.h"

namespace mccs::shim {

// THREAD: any.
class Process {
 public:
  // Makes it at the first call. In a forked child this is another object: the child knows none of
  // its parent's communicators and may open a session of its own.
  static Process& Get();

  absl::StatusOr<const DriverApi*> Driver();

  // The session with the daemon: the one that is open, or a new one.
  absl::StatusOr<std::shared_ptr<Session>> OpenSession();
  // A connection alone, for what needs no CUDA (ncclGetUniqueId may be called by a launcher).
  absl::StatusOr<DaemonClient*> OpenConnection();

  // The program is about to free the range: the daemon lets go of it first, where it has it.
  // Bounded as BufferExports::LetGo. Nothing where this process has no session.
  static void LetGo(const AddressRange& range);

  HandleTable& handles() { return handles_; }
  VirtualAllocations& allocations() { return allocations_; }
  OperatorNumbers& operator_numbers() { return operator_numbers_; }

 private:
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  absl::Status ConnectLocked();

  std::mutex mutex_;
  std::optional<DriverApi> driver_;            // set once under mutex_; then immutable
  std::unique_ptr<DaemonClient> connection_;   // open, but not yet part of a session
  std::shared_ptr<Session> session_;           // the newest
  std::vector<std::weak_ptr<Session>> older_;  // ended, but communicators hold them still
  std::mutex open_mutex_;                      // a leaf: nothing is called under it
  std::weak_ptr<Session> open_;                // session_, for those who may hold mutex_
  FenceGraveyard graveyard_;
  VirtualAllocations allocations_;
  HandleTable handles_;
  OperatorNumbers operator_numbers_;
};

// The communicator that a call of the program names; kInvalidArgument where there is none.
absl::StatusOr<CommRef> FindCommunicator(std::string_view function, ncclComm_t handle);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_PROCESS_H_
