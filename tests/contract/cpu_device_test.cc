// The Device contract for CpuDevice: with and without workers, on memory of this process and on
// memory that the CUDA emulation exports.
#include "service/device/cpu_device.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/check.h"
#include "service/device/emulation_importer.h"
#include "service/device/mapping_threads.h"
#include "tests/contract/device_contract.h"
#include "tests/contract/device_error_contract.h"
#include "tests/contract/device_plan_contract.h"
#include "tests/unit/device/emulated_allocation.h"
#include "tests/unit/device/failing_device.h"
#include "tests/unit/device/local_importer.h"

namespace mccs {
namespace cpu_device_test {

class HostWorld : public DeviceWorld {
 public:
  Device& device() override { return *device_; }
  void Write(std::byte* device_address, std::span<const std::byte> from) override {
    std::copy(from.begin(), from.end(), device_address);
  }
  void Read(std::span<std::byte> to, const std::byte* device_address) override {
    std::copy_n(device_address, to.size(), to.begin());
  }
  UniqueFd AllocateAsDescriptor(size_t bytes) override {
    return EmulatedAllocation(bytes).TakeFd();
  }
  void FailNext(const absl::Status& error) override {
    MCCS_CHECK(failing_ != nullptr);
    failing_->FailNext(error);
  }

 protected:
  std::unique_ptr<Device> device_;
  FailingDevice* failing_ = nullptr;  // device_, if it can fail
};

// Tenants are in this process, as in the simulator.
class LocalWorld : public HostWorld {
 public:
  explicit LocalWorld(const CpuDeviceOptions& options) {
    auto importer = std::make_unique<LocalImporter>();
    importer_ = importer.get();
    device_ = std::make_unique<CpuDevice>(options, std::move(importer));
  }
  TenantBuffer AllocateAsTenant(size_t bytes) override {
    memory_.resize(bytes);
    return {importer_->Register(memory_, kTenant), bytes, kTenant};
  }
  void ReadAsTenant(std::span<std::byte> to, const TenantBuffer&) override {
    std::copy_n(memory_.begin(), to.size(), to.begin());
  }

 private:
  static constexpr pid_t kTenant = 7;
  LocalImporter* importer_ = nullptr;
  std::vector<std::byte> memory_;
};

class EmulatedWorld final : public HostWorld {
 public:
  explicit EmulatedWorld(const CpuDeviceOptions& options,
                         std::unique_ptr<MappingRunner> runner = nullptr) {
    device_ = std::make_unique<CpuDevice>(options, std::make_unique<EmulationImporter>(),
                                          std::move(runner));
  }
  TenantBuffer AllocateAsTenant(size_t bytes) override {
    memory_ = std::make_unique<EmulatedAllocation>(bytes);
    return {memory_->HandleBytes(), bytes, getpid()};
  }
  void ReadAsTenant(std::span<std::byte> to, const TenantBuffer&) override {
    MCCS_CHECK(pread(memory_->fd(), to.data(), to.size(), 0) == static_cast<ssize_t>(to.size()));
  }

 private:
  std::unique_ptr<EmulatedAllocation> memory_;
};

// Operations on host memory cannot fail, so a wrapper fails.
class FailingWorld final : public LocalWorld {
 public:
  explicit FailingWorld(const CpuDeviceOptions& options) : LocalWorld(options) {
    auto failing = std::make_unique<FailingDevice>(std::move(device_));
    failing_ = failing.get();
    device_ = std::move(failing);
  }
};

template <class World>
DeviceWorldMaker Make(const std::string& name, int workers) {
  return {name,
          [workers] { return std::make_unique<World>(CpuDeviceOptions{.workers = workers}); }};
}

std::unique_ptr<DeviceWorld> MakeWithThreads() {
  return std::make_unique<EmulatedWorld>(CpuDeviceOptions{.workers = 1},
                                         std::make_unique<MappingThreads>([] {}));
}

const auto kWorlds = ::testing::Values(
    Make<LocalWorld>("Inline", 0), Make<LocalWorld>("OneWorker", 1),
    Make<EmulatedWorld>("EmulatedThreeWorkers", 3),
    DeviceWorldMaker{"MappingThreads", MakeWithThreads}, Make<FailingWorld>("CanFail", 1));
constexpr auto kNames = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(HostMemory, DeviceContract, kWorlds, kNames);
INSTANTIATE_TEST_SUITE_P(HostMemory, DevicePlanContract, kWorlds, kNames);
INSTANTIATE_TEST_SUITE_P(HostMemory, DeviceErrorContract,
                         ::testing::Values(Make<FailingWorld>("CanFail", 0),
                                           Make<FailingWorld>("CanFailOneWorker", 1)),
                         kNames);

}  // namespace cpu_device_test
}  // namespace mccs
