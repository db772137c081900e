// Runs plans, and copies between buffers, by kernels of the tenants' processes; all other work on
// another device.
//
// OWNER and THREAD: as for Device.
#ifndef MCCS_SERVICE_DEVICE_GPU_KERNEL_DEVICE_H_
#define MCCS_SERVICE_DEVICE_GPU_KERNEL_DEVICE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/device/device.h"
#include "service/device/gpu/kernel_copies.h"
#include "service/device/kernel_image.h"

namespace mccs {

class KernelDevice final : public Device {
 public:
  // LIFETIME: `inner` outlives this.
  KernelDevice(Device& inner, KernelImage image) : inner_(inner), image_(std::move(image)) {}

  MemoryMapper& mapper() override { return inner_.mapper(); }
  // Memory that processes can map.
  absl::StatusOr<std::unique_ptr<Region>> Allocate(size_t bytes) override;
  void Discard(std::span<std::byte> bytes) override;
  absl::StatusOr<std::unique_ptr<DevicePlan>> Load(PlanToLoad plan) override;
  Submitted Submit(const MemOp& op, MemToken token) override { return inner_.Submit(op, token); }
  void Copy(const RegionCopy& copy, MemToken token) override { copies_.Add(copy, token); }
  Polled Poll(std::span<Finished> finished) override;
  uint64_t memory_bps() const override { return inner_.memory_bps(); }
  bool uses_kernels() const override { return true; }
  const KernelImage* kernel_image() const override { return &image_; }
  bool lanes_reach_buffers() const override { return false; }
  std::string Description() const override {
    return absl::StrCat("kernels of tenants; ", inner_.Description());
  }

 private:
  Device& inner_;
  const KernelImage image_;
  KernelCopies copies_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_KERNEL_DEVICE_H_
