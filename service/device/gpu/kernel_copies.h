// Copies between ranks of one host by the kernel of one of them: their sends, receives and puts.
// And copies into windows by their processes, for puts whose source has no kernel that can copy.
//
// Copies of one queue run in the order in which they were added. A command holds as many as wait.
// Copies of one process start in that order, too. Queues and processes take turns: one that does
// not go on delays only its own copies.
//
// OWNER: the KernelDevice. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_GPU_KERNEL_COPIES_H_
#define MCCS_SERVICE_DEVICE_GPU_KERNEL_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "service/device/device.h"
#include "service/device/gpu/kernel_queue.h"
#include "service/device/gpu/process_copy.h"

namespace mccs {

class KernelCopies {
 public:
  KernelCopies() = default;
  KernelCopies(const KernelCopies&) = delete;
  KernelCopies& operator=(const KernelCopies&) = delete;

  // LIFETIME: the queue, the process and both regions outlive the copy.
  void Add(const RegionCopy& copy, MemToken token);
  // Gives the kernels what waits, and writes finished copies: at most `finished.size()`. A copy has
  // an error if a process cannot map the memory, or if the kernel's queue was stopped or its
  // process has ended.
  Device::Polled Poll(std::span<Device::Finished> finished);

  bool idle() const { return queues_.empty() && processes_.empty() && done_.empty(); }

 private:
  struct Waiting {
    RegionSpan from, to;
    uint64_t done_value;  // as in KernelCall
    MemToken token;
  };
  struct Running {
    uint64_t command;
    std::vector<MemToken> tokens;
  };
  struct Queue {
    std::deque<Waiting> waiting;
    std::deque<Running> running;
  };
  struct Done {
    MemToken token;
    absl::Status status;
  };

  struct ByProcess {
    ProcessCopy copy;
    MemToken token;
  };
  // Copies by one process.
  struct Process {
    std::deque<ByProcess> started;  // at most as many as it may have (GpuAddressSpace::StartCopy)
    std::deque<ByProcess> waiting;  // the next one to start in front
    size_t next_check = 0;          // index into `waiting`
  };

  // Return true if anything changed.
  bool PollProcesses();
  bool PollStarted(Process& process);
  bool StartWaiting(Process& process);
  // Ends waiting copies that are abandoned.
  bool DropAbandoned(Process& process);
  bool TakeFinished(KernelQueue& queue, Queue& copies);
  bool Publish(KernelQueue& queue, Queue& copies);
  // Advances the copy. True: it has ended.
  bool Advance(ByProcess& copy);

  absl::flat_hash_map<KernelQueue*, Queue> queues_;           // those with copies
  std::deque<KernelQueue*> turns_;                            // the same, the next one in front
  absl::flat_hash_map<GpuAddressSpace*, Process> processes_;  // those with copies
  std::deque<GpuAddressSpace*> process_turns_;                // the same, the next one in front
  std::deque<Done> done_;
  std::vector<Done> reported_;  // by the last Poll
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_KERNEL_COPIES_H_
