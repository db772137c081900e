// The library's state in its process: CUDA's functions, the session with the daemon, the live
// communicators. Created at the first call, never destroyed: threads and streams may be working
// while the process exits.
#ifndef MCCS_SHIM_PROCESS_PROCESS_H_
#define MCCS_SHIM_PROCESS_PROCESS_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shim/buffers/virtual_allocations.h"
#include "shim/cuda/driver_api.h"
#include "shim/daemon/fence.h"
#include "shim/submit/handle_table.h"
#include "shim/submit/session.h"
#include "shim/submit/user_operators.h"

namespace mccs::shim {

// THREAD: any.
class Process {
 public:
  // Created at the first call. A forked child gets another object: it has none of its parent's
  // communicators and may open a session of its own.
  static Process& Get();

  absl::StatusOr<const DriverApi*> Driver();

  // The open session with the daemon, or a new one.
  absl::StatusOr<std::shared_ptr<Session>> OpenSession();
  // A connection only, for calls without CUDA (a launcher may call ncclGetUniqueId).
  absl::StatusOr<DaemonClient*> OpenConnection();

  // Releases the range at the daemon, because the program is about to free it. Bounded as
  // BufferExports::ReleaseRange. Does nothing if this process has no session.
  static void ReleaseRange(const AddressRange& range);

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
  std::unique_ptr<DaemonClient> connection_;   // open, but not part of a session yet
  std::shared_ptr<Session> session_;           // the newest
  std::vector<std::weak_ptr<Session>> older_;  // ended, but still used by communicators
  std::mutex open_mutex_;                      // a leaf: no calls are made under it
  std::weak_ptr<Session> open_;                // session_, for callers that may hold mutex_
  RetiredFencePages retired_pages_;
  VirtualAllocations allocations_;
  HandleTable handles_;
  OperatorNumbers operator_numbers_;
};

// The communicator of a program's call; kInvalidArgument if the handle is not valid.
absl::StatusOr<CommRef> FindCommunicator(std::string_view function, ncclComm_t handle);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_PROCESS_PROCESS_H_
