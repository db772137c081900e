// Puts and signals between two ranks of one host.
//
// OWNER: MessageLoop. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_LOCAL_PUTS_H_
#define MCCS_SERVICE_MESSAGES_LOCAL_PUTS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/messages/device_copy.h"
#include "service/messages/open_message.h"
#include "service/messages/signal_counts.h"
#include "service/messages/waiting_calls.h"

namespace mccs {

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
  // No copy is in progress.
  bool quiescent() const;
  // Only processes copy, if anything does: the device and kernels do not.
  bool device_quiescent() const { return mem_ops_.outstanding == 0; }
  // The communicator has failed: without further Poll, device_quiescent() becomes true soon; and
  // quiescent(), when the processes have copied what they were asked to.
  void Stop();
  // The communicator has failed: without further Poll, quiescent() becomes true soon, whatever the
  // processes do. They may still read the sources and write into their windows.
  void Abandon();
  // This rank has left: puts into its windows count as copied soon, whatever its process does.
  void AbandonFor(Rank rank);
  // Appends the front put of each pair, if a process is to copy it and has not.
  void AddUncopied(WaitingCalls& waiting) const;
  // A copy into the window of `rank` is in progress; window 0 means any.
  bool WritesInto(Rank rank, uint64_t window) const;
  // A process copies from memory of `rank`.
  bool ProcessReadsFrom(Rank rank) const;
  // Appends the call of each pair that waits for its window.
  void AddUnmatched(WaitingCalls& waiting) const;
  // A call that waits for `rank`, which has left; null if there is none.
  const OpenMessage* WaitingFor(Rank rank) const;

 private:
  struct Copy {
    std::shared_ptr<const void> window;  // held during the copy
    DeviceCopy copy;
    int64_t process = 0;  // pid of the one that copies; 0: none, or a kernel does
  };
  struct Pair {
    std::deque<OpenMessage> calls;  // the front one is in progress
    std::unique_ptr<Copy> copy;     // of the front one; the device holds its address
  };

  enum class Progress : uint8_t { kComplete, kUnderWay, kWaits };
  // Advances the pair's front call.
  absl::StatusOr<Progress> Advance(Pair& pair, bool* moved);
  // Makes the copy of the pair's front call. kUnderWay: it can advance.
  absl::StatusOr<Progress> Begin(Pair& pair);

  const Parts parts_;
  MemOpOwner mem_ops_;  // of the device and of kernels
  // Of processes, by the window's rank; the device has their addresses.
  std::map<Rank, MemOpOwner> process_copies_;
  absl::flat_hash_map<RankPair, std::unique_ptr<Pair>> pairs_;
  // Pairs with calls are in exactly one of the two. Waiting pairs cost a turn nothing.
  std::deque<Pair*> busy_;                      // the next to advance first
  std::map<Rank, std::vector<Pair*>> waiting_;  // for windows of this rank
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_LOCAL_PUTS_H_
