// The windows of one rank: memory that it has opened to the puts of the other ranks.
//
// A window names its buffer and does not hold it. Each put looks the buffer up anew: a program that
// frees the memory of a window does not wait for the window, and a put that comes too late is
// refused with a text.
//
// OWNER: the RankEndpoint. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_RANK_WINDOWS_H_
#define MCCS_SERVICE_FRONTEND_RANK_WINDOWS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/shim_control.h"
#include "service/communicator/rank_port.h"
#include "service/frontend/buffer_registry.h"

namespace mccs {

// Windows that one rank has at a time: more than a program that registers each of its segments.
inline constexpr size_t kMaxWindows = size_t{1} << 16;

class RankWindows {
 public:
  // LIFETIME: `buffers` outlives this.
  RankWindows(Rank rank, const BufferRegistry& buffers) : rank_(rank), buffers_(buffers) {}

  // The number is taken, whatever becomes of the window: the next ones are the same windows as on
  // the other ranks. Without bytes there is none, and puts into it fail as with one that is closed.
  // kInvalidArgument: not the next number, or a part of no buffer; kResourceExhausted.
  absl::Status Open(const wire::RegisterWindow& request);
  // kInvalidArgument: no window has this number.
  absl::Status Close(uint64_t number);
  // All are gone.
  void CloseAll();
  // How often windows have come, failed to come, or gone.
  uint64_t changes() const { return changes_; }

  // As RankPort's.
  WindowView Look(uint64_t number) const;
  absl::StatusOr<WindowMemory> Find(const WindowPart& part) const;

 private:
  struct Window {
    wire::BufferRef memory{};
    uint64_t bytes = 0;
  };

  const Rank rank_;
  const BufferRegistry& buffers_;
  uint64_t last_ = 0;  // the newest number
  uint64_t changes_ = 0;
  absl::flat_hash_map<uint64_t, Window> windows_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_RANK_WINDOWS_H_
