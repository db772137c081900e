// The RMA windows of one rank: memory that other ranks may put into.
//
// A window refers to its buffer and does not hold it; each put looks the buffer up again. So a
// program can free a window's memory without waiting, and a put after that is rejected with an
// error message.
//
// OWNER: the RankEndpoint. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_RANK_WINDOWS_H_
#define MCCS_SERVICE_FRONTEND_RANK_WINDOWS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/shim_control.h"
#include "service/communicator/links/rank_port.h"
#include "service/frontend/buffer_registry.h"

namespace mccs {

// Windows that one rank has at a time: enough for a program that registers each of its segments.
inline constexpr size_t kMaxWindows = size_t{1} << 16;

class RankWindows {
 public:
  // LIFETIME: `buffers` outlives this.
  RankWindows(Rank rank, const BufferRegistry& buffers) : rank_(rank), buffers_(buffers) {}

  // Uses the number even on an error, so that the numbers stay equal on all ranks. A window without
  // bytes counts as closed: puts into it fail.
  // kInvalidArgument: not the next number, or not part of a buffer; kResourceExhausted.
  absl::Status Open(const wire::RegisterWindow& request);
  // kInvalidArgument: no window has this number.
  absl::Status Close(uint64_t number);
  // Closes all windows.
  void CloseAll();
  // Number of times that a window was opened, failed to open, or was closed.
  uint64_t changes() const { return changes_; }

  // See WindowPort.
  WindowView GetView(uint64_t number) const;
  absl::StatusOr<WindowMemory> Find(const WindowPart& part) const;

 private:
  struct Window {
    wire::BufferRef memory{};
    uint64_t bytes = 0;
  };

  const Rank rank_;
  const BufferRegistry& buffers_;
  uint64_t last_ = 0;  // the highest number so far
  uint64_t changes_ = 0;
  absl::flat_hash_map<uint64_t, Window> windows_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_RANK_WINDOWS_H_
