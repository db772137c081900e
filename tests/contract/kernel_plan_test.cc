// The contract of DevicePlan for KernelPlan: the kernels of both ranks run in this process.
#include "service/device/gpu/kernel_plan.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "service/device/cpu_device.h"
#include "tests/contract/device_plan_contract.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/device/local_kernel.h"

namespace mccs {
namespace kernel_plan_test {

// Loads plans for the kernels; all else is on the processor.
class KernelDevice final : public Device {
 public:
  explicit KernelDevice(std::span<LocalKernel> kernels) : kernels_(kernels) {}

  MemoryMapper& mapper() override { return inner_.mapper(); }
  absl::StatusOr<std::unique_ptr<Region>> Allocate(size_t bytes) override {
    return inner_.Allocate(bytes);
  }
  void Discard(std::span<std::byte> bytes) override { inner_.Discard(bytes); }
  absl::StatusOr<std::unique_ptr<DevicePlan>> Load(PlanToLoad plan) override {
    return KernelPlan::Make(std::move(plan),
                            [this](uint64_t bytes) { return inner_.Allocate(bytes); });
  }
  Submitted Submit(const MemOp& op, MemToken token) override { return inner_.Submit(op, token); }
  Polled Poll(std::span<Finished> finished) override {
    Polled polled = inner_.Poll(finished);
    for (LocalKernel& kernel : kernels_) polled.worked |= kernel.Advance();
    return polled;
  }
  std::string Description() const override { return "kernels in this process"; }

 private:
  CpuDevice inner_{{}, std::make_unique<LocalImporter>()};
  const std::span<LocalKernel> kernels_;
};

class KernelWorld final : public DeviceWorld {
 public:
  Device& device() override { return device_; }
  TenantBuffer AllocateAsTenant(size_t) override { MCCS_CHECK(false); }
  UniqueFd AllocateAsDescriptor(size_t) override { MCCS_CHECK(false); }
  void Write(std::byte* device_address, std::span<const std::byte> from) override {
    std::copy(from.begin(), from.end(), device_address);
  }
  void Read(std::span<std::byte> to, const std::byte* device_address) override {
    std::copy_n(device_address, to.size(), to.begin());
  }
  void ReadAsTenant(std::span<std::byte>, const TenantBuffer&) override { MCCS_CHECK(false); }
  void FailNext(const absl::Status&) override { MCCS_CHECK(false); }

  void Kill(size_t rank) { kernels_[rank].Die(); }
  std::span<const KernelCall> kernels() override { return calls_; }
  // The kernels wait for lanes, in the middle of a command.
  bool Settled(const DevicePlan&) override {
    return std::ranges::none_of(kernels_, [](const LocalKernel& k) { return k.mapping(); });
  }

 private:
  std::array<LocalKernel, 2> kernels_;
  std::array<KernelCall, 2> calls_ = {KernelCall{.queue = &kernels_[0].queue()},
                                      KernelCall{.queue = &kernels_[1].queue()}};
  KernelDevice device_{kernels_};
};

class KernelPlanContract : public DevicePlanContract {};

// Why the communicator ends is known to the frontend, which sees the process end.
TEST_P(KernelPlanContract, AProcessThatEndsIsNoErrorOfThePlan) {
  const auto loaded = Load({Receives({Space::kReceived, 0, 0, 0}),
                            Sums({{Space::kReceived, 0, 0, 0}, kFirstInput}, kFirstOutput, {0})});
  Start(*loaded, 2);
  Settle(*loaded);
  EXPECT_FALSE(loaded->quiescent());
  static_cast<KernelWorld&>(*world_).Kill(0);
  for (int i = 0; i < 10; ++i) {
    const absl::StatusOr<bool> moved = loaded->Poll();
    ASSERT_TRUE(moved.ok()) << moved.status();
    EXPECT_FALSE(*moved);
  }
  EXPECT_FALSE(loaded->done());
  EXPECT_TRUE(loaded->quiescent());
}

INSTANTIATE_TEST_SUITE_P(Kernels, KernelPlanContract,
                         ::testing::Values(DeviceWorldMaker{
                             "OnTheHost", [] { return std::make_unique<KernelWorld>(); }}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Kernels, DevicePlanContract,
                         ::testing::Values(DeviceWorldMaker{
                             "OnTheHost", [] { return std::make_unique<KernelWorld>(); }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace kernel_plan_test
}  // namespace mccs
