// Sends, receives, puts and signals between two ranks of one host, copied by the device.
//
// OWNER: MessageLoop. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_
#define MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/messages/open_message.h"
#include "service/messages/signal_counts.h"

namespace mccs {

// Copies memory to memory on this host, by the device. What the daemon has mapped is split into
// parts, so that all workers are used and each part fits a worker's cache. A kernel or
// a process copies the rest, as a whole.
//
// LIFETIME: this and the memory keep their addresses while the device has parts.
class DeviceCopy {
 public:
  struct Job {
    RegionSpan from;
    RegionSpan to;
    uint64_t bytes = 0;
    KernelQueue* queue = nullptr;      // whose kernel can copy
    KernelProcess* process = nullptr;  // of `to`, which can copy from what the daemon has mapped
  };
  // `owner`: of all copies together. It checks its status.
  DeviceCopy(const Device& device, const Job& job, MemOpOwner* owner);

  // Whether the device can make the copy.
  static bool IsPossible(const Device& device, const Job& job);
  // Submits as many parts as the device accepts. Returns true when everything is copied. Sets
  // `moved` if any part was submitted.
  bool Advance(Device& device, bool* moved);
  // The copy will not be completed, because the communicator has failed: it ends soon.
  void Stop();

 private:
  bool AdvanceMapped(Device& device, bool* moved);
  bool AdvanceUnmapped(Device& device, bool* moved);

  // Parts in the device at a time: enough for all its workers.
  static constexpr size_t kParts = 4;
  // As Geometry's local slices: the operands fit a core's second-level cache.
  static constexpr uint64_t kPartBytes = 256 << 10;
  // Copies of this size exceed a core's caches (MemOp::stream).
  static constexpr uint64_t kLargeBytes = 4 << 20;

  struct Part {
    PendingMemOps mem_ops;
    MemSource source;
    std::byte* destination = nullptr;
  };

  Job job_;
  const bool mapped_;
  uint64_t submitted_ = 0;  // bytes
  std::array<Part, kParts> parts_;
};

// The error of a call whose memory neither the daemon nor a kernel can copy: kInvalidArgument.
absl::Status NotMapped(const OpenMessage& call);

// Ends a Poll over copies when the engine has done enough for one turn. The next Poll continues
// with the next copies.
class PollLimit {
 public:
  // Copies, or puts and signals.
  static constexpr size_t kCopies = 128;
  // Read and written by the engine itself; rounded up to one part of a copy.
  static constexpr uint64_t kBytes = 256 << 10;

  explicit PollLimit(const Device& device)
      : device_(device), end_(device.inline_bytes() + kBytes) {}
  bool left() const { return device_.inline_bytes() < end_; }

 private:
  const Device& device_;
  const uint64_t end_;
};

// The sends and receives: matched in the order of the calls.
class LocalExchange {
 public:
  // LIFETIME: the device outlives it.
  explicit LocalExchange(Device& device) : device_(device) {}
  LocalExchange(const LocalExchange&) = delete;
  LocalExchange& operator=(const LocalExchange&) = delete;

  // Adds a call of either end; the copy starts when both ends have called. kFailedPrecondition: the
  // two calls do not match.
  absl::Status Add(const OpenMessage& message);
  // Advances the copies, within the PollLimit, and appends complete messages to `done`. Returns
  // true if anything moved. An error of the device is permanent.
  absl::StatusOr<bool> Poll(std::vector<OpenMessage>& done);

  bool copying() const { return !copies_.empty(); }
  // No copy is in the device.
  bool quiescent() const { return mem_ops_.outstanding == 0; }
  // The communicator has failed: without further Poll(), quiescent() becomes true soon.
  void Stop();
  // Appends, for each pair, the oldest call that waits for the other end.
  void AddUnmatched(std::vector<OpenMessage>& unmatched) const;
  // A call that waits for one by `rank`, which has left; null if there is none.
  const OpenMessage* WaitingFor(Rank rank) const;

 private:
  struct Copy {
    OpenMessage send, receive;
    DeviceCopy copy;
  };
  struct Waiting {
    std::deque<OpenMessage> sends, receives;  // one of the two is empty
  };

  absl::Status Start(const OpenMessage& send, const OpenMessage& receive);

  Device& device_;
  MemOpOwner mem_ops_;
  absl::flat_hash_map<RankPair, Waiting> waiting_;
  // The next to advance first. The device holds their addresses.
  std::deque<std::unique_ptr<Copy>> copies_;
};

// Puts and signals between ranks of this host, or of a rank to itself: copied by the device into
// the window, then counted. Calls of one ordered pair of ranks run one after the other, in the
// order of the calls.
class LocalPuts {
 public:
  struct Parts {
    Device* device = nullptr;
    SignalCounts* signals = nullptr;
    // The port of a rank of this host; null if it has left.
    std::function<const WindowPort*(Rank)> port_of = {};
  };
  // LIFETIME: the parts outlive it.
  explicit LocalPuts(Parts parts) : parts_(std::move(parts)) {}
  LocalPuts(const LocalPuts&) = delete;
  LocalPuts& operator=(const LocalPuts&) = delete;

  // Adds a kPut or kSignal. A put waits until its window is registered.
  void Add(const OpenMessage& call);
  // A local rank has opened or closed a window, or has left: waiting calls check again.
  void WindowsChanged();
  // Advances the copies, within the PollLimit, and appends complete calls to `done`. Returns true
  // if anything moved. Errors: as for WindowPort::FindInWindow and SignalCounts::Count, and
  // permanent ones of the device.
  absl::StatusOr<bool> Poll(std::vector<OpenMessage>& done);

  // A call can advance: the device has, or can take, a part of a copy; or the last Poll reached its
  // limit before the call.
  bool copying() const { return !busy_.empty(); }
  // No copy is in the device.
  bool quiescent() const { return mem_ops_.outstanding == 0; }
  // As LocalExchange's.
  void Stop();
  // A copy into the window of `rank` is in progress; window 0 means any.
  bool WritesInto(Rank rank, uint64_t window) const;
  // Appends the call of each pair that waits for its window.
  void AddUnmatched(std::vector<OpenMessage>& unmatched) const;
  // A call that waits for `rank`, which has left; null if there is none.
  const OpenMessage* WaitingFor(Rank rank) const;

 private:
  struct Copy {
    std::shared_ptr<const void> window;  // held during the copy
    DeviceCopy copy;
  };
  struct Pair {
    std::deque<OpenMessage> calls;  // the front one is in progress
    std::unique_ptr<Copy> copy;     // of the front one; the device holds its address
  };

  enum class Progress : uint8_t { kComplete, kUnderWay, kWaits };
  // Advances the pair's front call.
  absl::StatusOr<Progress> Advance(Pair& pair, bool* moved);

  const Parts parts_;
  MemOpOwner mem_ops_;
  absl::flat_hash_map<RankPair, std::unique_ptr<Pair>> pairs_;
  // Pairs with calls are in exactly one of the two. Waiting pairs cost a turn nothing.
  std::deque<Pair*> busy_;      // the next to advance first
  std::vector<Pair*> waiting_;  // for their windows
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_LOCAL_EXCHANGE_H_
