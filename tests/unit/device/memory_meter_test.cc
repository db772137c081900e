#include "service/device/memory_meter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "service/device/cpu_device.h"
#include "service/device/mem_op.h"
#include "tests/unit/device/local_importer.h"

namespace mccs {
namespace memory_meter_test {

constexpr uint64_t kEnough = MemoryMeter::kMinPeriodBytes;

// Advances at every call of Now().
class SteppingClock final : public Clock {
 public:
  MonotonicNs Now() const override { return now_ += step; }
  int64_t step = 0;

 private:
  mutable MonotonicNs now_ = 0;
};

// One byte per nanosecond is 8 Gbit/s.
constexpr uint64_t kBytePerNs = 8'000'000'000;

TEST(MemoryMeter, IsUnknownBeforeEnoughSamples) {
  MemoryMeter meter(nullptr);
  meter.AddSample(kEnough - 1, 0, 1000);
  EXPECT_EQ(meter.rate_bps(), 0u);
  meter.AddSample(1, 1000, 1000);
  EXPECT_GT(meter.rate_bps(), 0u);
}

TEST(MemoryMeter, IsTheAverageOverBytes) {
  MemoryMeter meter(nullptr);
  const auto enough = static_cast<MonotonicNs>(kEnough);
  meter.AddSample(3 * kEnough, 0, enough);
  meter.AddSample(kEnough, enough, 4 * enough);
  EXPECT_EQ(meter.rate_bps(), kBytePerNs);
}

TEST(MemoryMeter, DropsOldPeriods) {
  MemoryMeter meter(nullptr);
  const auto enough = static_cast<MonotonicNs>(kEnough);
  MonotonicNs now = enough;
  meter.AddSample(kEnough, 0, now);
  now += MemoryMeter::kPeriodNs;
  meter.AddSample(kEnough / 2, now - enough, now);
  EXPECT_EQ(meter.rate_bps(), kBytePerNs) << "not enough bytes in the new period yet";
  meter.AddSample(kEnough / 2, now - enough, now);
  EXPECT_EQ(meter.rate_bps(), kBytePerNs * 2 / 3) << "the period before counts";
  now += MemoryMeter::kPeriodNs;
  meter.AddSample(kEnough, now - 2 * enough, now);
  EXPECT_EQ(meter.rate_bps(), kBytePerNs / 2);
}

TEST(MemoryMeter, OfADeviceMeasuresLargePassesThatTheOwnerRuns) {
  constexpr uint64_t kElements = 1 << 20;
  SteppingClock clock;
  for (const int workers : {0, 1}) {
    // With workers the owner runs a part at a time. It reads and writes two bytes per nanosecond.
    clock.step = (workers == 0 ? 2 * kElements * sizeof(float) : MemOpParts::kPartBytes) / 2;
    CpuDevice device({.workers = workers, .clock = &clock}, std::make_unique<LocalImporter>());
    std::vector<float> from(kElements, 1), to(kElements);
    const MemSource source[] = {{.address = reinterpret_cast<const std::byte*>(from.data())}};
    std::byte* const destination[] = {reinterpret_cast<std::byte*>(to.data())};
    const auto copy = [&](uint64_t elements) {
      const Device::Submitted submitted = device.Submit({.sources = source,
                                                         .destinations = destination,
                                                         .elements = elements,
                                                         .type = DataType::kFloat32},
                                                        0);
      ASSERT_NE(submitted, Device::Submitted::kQueueFull);
      Device::Finished done[1];
      while (submitted == Device::Submitted::kStarted && device.Poll(done).finished == 0) {
      }
    };
    for (int i = 0; i < 1000; ++i) copy(MemoryMeter::kMinBytes / (2 * sizeof(float)) - 1);
    EXPECT_EQ(device.memory_bps(), 0u) << "small operations do not count";
    // A worker may sometimes be faster than the owner, but the owner runs its part.
    for (int i = 0; i < 1000 && device.memory_bps() == 0; ++i) copy(kElements);
    EXPECT_EQ(device.memory_bps(), 2 * kBytePerNs) << workers << " workers";
  }
}

TEST(MemoryMeter, OfADeviceWithoutAClockMeasuresNothing) {
  MemoryMeter meter(nullptr);
  std::vector<float> from(kEnough), to(kEnough);
  const MemSource source[] = {{.address = reinterpret_cast<const std::byte*>(from.data())}};
  std::byte* const destination[] = {reinterpret_cast<std::byte*>(to.data())};
  meter.Run({.sources = source,
             .destinations = destination,
             .elements = from.size(),
             .type = DataType::kFloat32});
  EXPECT_EQ(meter.rate_bps(), 0u);
}

}  // namespace memory_meter_test
}  // namespace mccs
