// Memory that the receiver of a lane exposes to the lane's sender. The sender then writes a slice
// straight to {key, offset}; the receiver chooses no memory for it.
//
//   receiver                                       sender
//   Expose(name, memory) ─── {key, name, bytes} ──► FindExposed(name) → key, bytes
//   Landed(n) = kWritten ◄── slice n, key, offset ── PostTo({key, offset}, …)
//   Withdraw(key) ────────── {key} ───────────────► the name is gone
//
// Both ends know the name: for a collective, from the operation's number and the rank. A key is
// valid for one lane, and so for one communicator, from Expose to Withdraw. A transport uses it
// once. Keys go to the peer's daemon only, over the lane's authenticated connection.
//
// A write that names another key or exceeds the memory is a violation of the protocol: it ends the
// lane and changes no memory. So is a write after Withdraw. A receiver withdraws memory when it has
// all slices for it, or when it ends the lane's work; a correct sender writes nothing later.
//
// OWNER: the ends of a lane. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_EXPOSURE_H_
#define MCCS_SERVICE_TRANSPORT_EXPOSURE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "service/device/region.h"

namespace mccs {

// Chosen by the owners of both ends, unique among what is exposed on a lane.
using ExposureName = StrongInt<struct ExposureNameTag, uint64_t>;

// Chosen by the receiver's transport; 0: none.
using RemoteKey = StrongInt<struct RemoteKeyTag, uint64_t>;

// Exposed memory as its lane's sender sees it.
struct RemoteRegion {
  RemoteKey key;
  uint64_t bytes = 0;
};

// The start of a slice in exposed memory.
struct RemoteTarget {
  RemoteKey key;
  uint64_t offset = 0;
};

// Limits what a receiver exposes on one lane: outputs of all its local ranks for some operations.
inline constexpr size_t kMaxExposures = 256;

// The receiver's end: what is exposed on a lane, and which of it the peer must learn.
class ExposedMemory {
 public:
  // REQUIRES: no other exposure has `key`, and it is not 0.
  // kAlreadyExists: the name is in use. kResourceExhausted: kMaxExposures are in use.
  absl::Status Expose(RemoteKey key, ExposureName name, const RegionSpan& memory);
  // REQUIRES: exposed.
  void Withdraw(RemoteKey key);
  // The memory for `bytes` bytes at `target`. kNotFound: not exposed. kOutOfRange: exceeds it.
  absl::StatusOr<RegionSpan> Find(const RemoteTarget& target, uint64_t bytes) const;

  // A change for the peer.
  struct Change {
    bool withdrawn = false;
    RemoteKey key;
    ExposureName name;
    uint64_t bytes = 0;
  };
  std::optional<Change> TakeChange();
  bool has_changes() const { return !changes_.empty(); }
  bool empty() const { return exposures_.empty(); }
  // The peer has a new connection and knows nothing.
  void RepeatAll();

 private:
  struct Exposure {
    RemoteKey key;
    ExposureName name;
    RegionSpan memory;
  };
  std::vector<Exposure> exposures_;  // a few: searched in order
  std::deque<Change> changes_;       // not taken yet; at most two per exposure
};

// The sender's end: what its peer has exposed.
class PeerMemory {
 public:
  // Errors: the peer violates the protocol.
  absl::Status OnExposed(ExposureName name, const RemoteRegion& region);
  absl::Status OnWithdrawn(RemoteKey key);
  std::optional<RemoteRegion> Find(ExposureName name) const;
  // kFailedPrecondition: not exposed, or withdrawn. kOutOfRange: exceeds the memory.
  absl::Status Check(const RemoteTarget& target, uint64_t bytes) const;
  void Clear() { regions_.clear(); }

 private:
  struct Entry {
    ExposureName name;
    RemoteRegion region;
  };
  std::vector<Entry> regions_;  // a few: searched in order
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_EXPOSURE_H_
