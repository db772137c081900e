// Slices of puts for windows that the daemon cannot write, because they are on a GPU. A slice lands
// in memory of the host, and the process of the window's rank copies it into the window.
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
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/device/gpu/process_copy.h"
#include "service/messages/open_message.h"

namespace mccs {

class WindowCopies {
 public:
  struct Options {
    // Memory of the daemon that processes can map.
    std::function<absl::StatusOr<std::unique_ptr<Region>>(uint64_t bytes)> allocate = {};
    uint32_t slice_bytes = 0;
    uint32_t slots = 0;  // of a lane
  };
  // LIFETIME: what the options point to outlives it.
  explicit WindowCopies(Options options) : options_(std::move(options)) {}

  // Where a slice for this part of a window lands. Nothing: there is no memory.
  std::optional<RegionSpan> FindPlace(const ArrivingSlice& slice, WindowMemory window);
  // A slice of a put or signal has landed. True: it waits until it is copied, or for its turn.
  bool Add(const ArrivingSlice& slice);
  // It waits.
  bool Has(const ArrivingSlice& slice) const;
  // Slices of the lane are waiting.
  bool waiting(int lane) const;
  // Takes the slices whose turn has come; true if there were any. Errors: those of `leave`, and of
  // the process.
  absl::StatusOr<bool> Poll(int lane,
                            const std::function<absl::Status(const ArrivingSlice&)>& leave);
  // A slice for the window of `rank` is waiting; window 0 means any.
  bool WritesInto(Rank rank, uint64_t window) const;

 private:
  struct Waiting {
    ArrivingSlice slice;
    std::shared_ptr<const void> hold;  // on the window
    std::optional<ProcessCopy> copy;
    bool copied = false;
  };
  struct Lane {
    std::unique_ptr<Region> places;                // null until needed
    std::map<SliceNumber, WindowMemory> arriving;  // slices that have a place
    std::deque<Waiting> slices;
  };

  Lane& LaneAt(int lane);
  RegionSpan PlaceOf(const Lane& lane, const ArrivingSlice& slice) const;

  const Options options_;
  std::vector<Lane> lanes_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_WINDOW_COPIES_H_
