// The daemon's end of a command queue (kernels/commands.h): one stream of one rank.
//
// OWNER: the rank's endpoint. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_GPU_KERNEL_QUEUE_H_
#define MCCS_SERVICE_DEVICE_GPU_KERNEL_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/commands.h"
#include "service/device/gpu/gpu_address_space.h"

namespace mccs {

class KernelQueue {
 public:
  // `shared`: zeroed, but for `first`, the number of commands before. LIFETIME: both outlive the
  // queue.
  KernelQueue(GpuAddressSpace& process, kernels::CommandQueue& shared, uint64_t first = 0)
      : process_(process), shared_(shared), reserved_(first), published_(first), finished_(first) {}
  KernelQueue(const KernelQueue&) = delete;
  KernelQueue& operator=(const KernelQueue&) = delete;

  GpuAddressSpace& process() { return process_; }

  // Takes the number of the next command. Operations take it when they start, so that the kernel
  // runs them in the order of their starts, which is the same on all hosts, although the memory of
  // a later one may be mapped sooner.
  uint64_t Reserve() { return reserved_++; }
  // All commands before this one are published, and there is room for it.
  bool MayPublish(uint64_t number) {
    return number == published_ &&
           (number < kernels::kQueueCommands || Finished(number - kernels::kQueueCommands));
  }
  // Gives the kernel a command. `short_form`: the same as a ShortCommand, aligned to 8; empty: it
  // is none. REQUIRES: MayPublish(number).
  void Publish(uint64_t number, const kernels::Command& command,
               std::span<const std::byte> short_form = {});
  // Its kernels have ended without finishing their commands, and no other one will run.
  void End() { ended_ = true; }
  // The same for kernels that wait for this value of the done word or a later one. Earlier ones may
  // still run, and finish their commands.
  void EndFrom(uint64_t done_value);
  // False: no kernel takes a command with this done value (Command::done_value) any more, because
  // of End, EndFrom, or the end of its process.
  bool Runs(uint64_t done_value) const;
  // The same for a published command. True also if it is finished.
  bool RunsCommand(uint64_t number) const;
  // The next number is free, and its command could be published at once.
  bool MayPublishNext() { return reserved_ == published_ && MayPublish(published_); }
  // Whether the kernel has finished this command, or never will.
  bool Finished(uint64_t number);

  // Tells the kernel that a word has changed.
  void Ring();
  // All commands end soon, without their results, also later ones.
  void Stop();
  bool stopped() const { return stopped_; }

 private:
  void WriteShort(uint64_t number, std::span<const std::byte> short_form);

  GpuAddressSpace& process_;
  kernels::CommandQueue& shared_;
  bool ended_ = false;
  std::optional<uint64_t> ended_from_;  // done value
  // Of the last published commands, by number: a tenant can write into `shared_`.
  std::array<uint64_t, kernels::kQueueCommands> done_values_{};
  uint64_t bell_ = 0;
  uint64_t reserved_;
  uint64_t published_;
  uint64_t finished_;
  bool stopped_ = false;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_KERNEL_QUEUE_H_
