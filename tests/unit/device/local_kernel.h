// A rank whose kernel runs in this process.
#ifndef MCCS_TESTS_UNIT_DEVICE_LOCAL_KERNEL_H_
#define MCCS_TESTS_UNIT_DEVICE_LOCAL_KERNEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/commands.h"
#include "kernels/host_kernel.h"
#include "service/device/gpu/gpu_address_space.h"
#include "service/device/gpu/kernel_queue.h"

namespace mccs {

// A region becomes known some polls after it is asked for, as if the process were another one.
class LocalKernel final : public GpuAddressSpace {
 public:
  const KernelPlace& place() const override { return place_; }
  const Region* probe() const override { return nullptr; }
  absl::StatusOr<uint64_t> AddressOf(const Region& region) override {
    if (const auto broken = broken_.find(region.id()); broken != broken_.end())
      return broken->second;
    const bool known = asked_[region.id()]++ >= kPollsToMap;
    if (!known) return 0;
    const auto on_gpu = on_gpu_.find(region.id());
    return reinterpret_cast<uint64_t>(on_gpu == on_gpu_.end() ? region.address() : on_gpu->second);
  }
  uint64_t StartCopy(uint64_t to, uint64_t from, uint64_t bytes) override {
    if (holds_copies_) return copies_ < kMostHeld ? ++copies_ : 0;
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return ++copies_;
  }
  absl::StatusOr<bool> TakeCopied(uint64_t /*copy*/) override { return !holds_copies_; }
  void ForgetCopy(uint64_t /*copy*/) override {}
  bool alive() const override { return alive_; }
  void Die() { alive_ = false; }
  // From now on it takes a few copies, and does not answer.
  void HoldCopies() { holds_copies_ = true; }
  // The region cannot be mapped.
  void Reject(const Region& region, const absl::Status& why) { broken_[region.id()] = why; }

  // Where kernels find a region that the daemon has not mapped.
  void Place(const Region& region, std::byte* memory) { on_gpu_[region.id()] = memory; }

  KernelQueue& queue() { return queue_; }
  const kernels::CommandQueue& shared() const { return shared_; }
  bool Advance() { return alive_ && kernel_.Advance(); }
  bool mapping() const {
    return std::ranges::any_of(asked_,
                               [](const auto& asked) { return asked.second <= kPollsToMap; });
  }

  static constexpr int kPollsToMap = 3;

 private:
  const KernelPlace place_;
  bool alive_ = true;
  static constexpr uint64_t kMostHeld = 8;
  bool holds_copies_ = false;
  uint64_t copies_ = 0;
  std::map<RegionId, int> asked_;
  std::map<RegionId, absl::Status> broken_;
  std::map<RegionId, std::byte*> on_gpu_;
  kernels::CommandQueue shared_{};
  KernelQueue queue_{*this, shared_};
  kernels::HostKernel kernel_{shared_};
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_DEVICE_LOCAL_KERNEL_H_
