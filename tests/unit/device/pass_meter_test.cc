#include "service/device/pass_meter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "service/device/cpu_device.h"
#include "service/device/local_importer.h"
#include "service/device/mem_op_parts.h"

namespace mccs {
namespace pass_meter_test {

constexpr uint64_t kEnough = PassMeter::kEnoughBytes;

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

TEST(PassMeter, SaysNothingBeforeThereIsEnough) {
  PassMeter meter(nullptr);
  meter.Note(kEnough - 1, 0, 1000);
  EXPECT_EQ(meter.rate_bps(), 0u);
  meter.Note(1, 1000, 1000);
  EXPECT_GT(meter.rate_bps(), 0u);
}

TEST(PassMeter, IsTheAverageOverBytes) {
  PassMeter meter(nullptr);
  const auto enough = static_cast<MonotonicNs>(kEnough);
  meter.Note(3 * kEnough, 0, enough);
  meter.Note(kEnough, enough, 4 * enough);
  EXPECT_EQ(meter.rate_bps(), kBytePerNs);
}

TEST(PassMeter, ForgetsWhatIsLongAgo) {
  PassMeter meter(nullptr);
  const auto enough = static_cast<MonotonicNs>(kEnough);
  MonotonicNs now = enough;
  meter.Note(kEnough, 0, now);
  now += PassMeter::kPeriodNs;
  meter.Note(kEnough / 2, now - enough, now);
  EXPECT_EQ(meter.rate_bps(), kBytePerNs) << "not enough bytes in the new period yet";
  meter.Note(kEnough / 2, now - enough, now);
  EXPECT_EQ(meter.rate_bps(), kBytePerNs * 2 / 3) << "the period before counts";
  now += PassMeter::kPeriodNs;
  meter.Note(kEnough, now - 2 * enough, now);
  EXPECT_EQ(meter.rate_bps(), kBytePerNs / 2);
}

TEST(PassMeter, OfADeviceMeasuresLargePassesThatTheOwnerRuns) {
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
      ASSERT_TRUE(device.Submit({.sources = source,
                                 .destinations = destination,
                                 .elements = elements,
                                 .type = DataType::kFloat32},
                                0));
      MemToken done[1];
      while (device.Poll(done).finished == 0) {
      }
    };
    for (int i = 0; i < 1000; ++i) copy(PassMeter::kLeastBytes / (2 * sizeof(float)) - 1);
    EXPECT_EQ(device.pass_bps(), 0u) << "small operations do not count";
    // A worker may sometimes be faster than the owner, but the owner runs its part.
    for (int i = 0; i < 1000 && device.pass_bps() == 0; ++i) copy(kElements);
    EXPECT_EQ(device.pass_bps(), 2 * kBytePerNs) << workers << " workers";
  }
}

TEST(PassMeter, OfADeviceWithoutAClockMeasuresNothing) {
  PassMeter meter(nullptr);
  std::vector<float> from(kEnough), to(kEnough);
  const MemSource source[] = {{.address = reinterpret_cast<const std::byte*>(from.data())}};
  std::byte* const destination[] = {reinterpret_cast<std::byte*>(to.data())};
  meter.Run({.sources = source,
             .destinations = destination,
             .elements = from.size(),
             .type = DataType::kFloat32});
  EXPECT_EQ(meter.rate_bps(), 0u);
}

}  // namespace pass_meter_test
}  // namespace mccs
