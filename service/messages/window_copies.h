// Slices of puts for windows that the daemon cannot write, because they are on a GPU. A slice lands
// in memory of the daemon, and the process of the window's rank copies it into the window.
//
//   FindPlace ──► the slice lands there ── Add ──► copied ── Poll ──► the owner counts its signal,
//                                                                     the lane gets its slot back
//
// The slices of a lane leave in their order, so a signal never overtakes the data before it: slices
// behind one that is being copied wait, too. A lane has as many places as slots.
//
// OWNER: PeerPuts. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_WINDOW_COPIES_H_
#define MCCS_SERVICE_MESSAGES_WINDOW_COPIES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/messages/open_message.h"
#include "service/messages/waiting_calls.h"

namespace mccs {

class WindowCopies {
 public:
  struct Options {
    Device* device = nullptr;  // outlives it; null: the daemon has mapped all windows
    // Memory in which lanes can write. kResourceExhausted: the communicator's limit is reached.
    std::function<absl::StatusOr<std::shared_ptr<Region>>(uint64_t bytes)> allocate = {};
    uint32_t slice_bytes = 0;
    uint32_t slots = 0;  // of a lane
  };
  explicit WindowCopies(Options options) : options_(std::move(options)) {}
  WindowCopies(const WindowCopies&) = delete;
  WindowCopies& operator=(const WindowCopies&) = delete;

  // Where a slice lands. Nothing: no memory could be allocated; place_error() has the reason.
  std::optional<RegionSpan> FindPlace(const ArrivingSlice& slice);
  // A slice of a put or signal has landed. `window`: where to copy it; nothing: it is in its
  // window, or has no payload. True: it waits until it is copied, or for its turn.
  bool Add(const ArrivingSlice& slice, std::optional<WindowMemory> window);
  // Slices of the lane are kept: they wait until they are copied, or for their turn.
  bool has_kept(int lane) const;
  // The slice, which was the last one of the lane to be added, is kept.
  bool Keeps(const ArrivingSlice& slice) const;
  // Passes on the slices whose turn has come; true if there were any. Errors: those of `on_copied`,
  // and of the process.
  absl::StatusOr<bool> Poll(int lane,
                            const std::function<absl::Status(const ArrivingSlice&)>& on_copied);
  // A process copies, or will, into some of this memory.
  bool CopiesInto(const RegionSpan& memory) const;
  // A slice for the window of `rank` waits; window 0 means any.
  bool WritesInto(Rank rank, uint64_t window) const;
  const absl::Status& place_error() const { return place_error_; }
  // No process copies.
  bool quiescent() const;
  // The communicator has failed: without further Poll, quiescent() becomes true soon, whatever the
  // processes do.
  void Abandon();
  // This rank has left: what waits for its windows counts as copied soon, whatever its process
  // does.
  void AbandonFor(Rank rank);
  // Appends the oldest part of each lane that a process has not copied.
  void AddUncopied(WaitingCalls& waiting) const;

 private:
  struct Waiting {
    ArrivingSlice slice;
    std::shared_ptr<const void> hold;  // on the window
    PendingMemOps copy;                // the device has its address
    int64_t process = 0;               // pid of the one that copies
    RegionSpan to;                     // in the window
  };
  struct Lane {
    std::shared_ptr<Region> places;  // null until needed
    std::deque<Waiting> slices;
  };

  Lane& LaneAt(int lane);
  RegionSpan PlaceOf(const Lane& lane, const ArrivingSlice& slice) const;

  const Options options_;
  std::map<Rank, MemOpOwner> mem_ops_;  // by the window's rank; the device has their addresses
  absl::Status place_error_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // null until needed; addresses stay
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_WINDOW_COPIES_H_
