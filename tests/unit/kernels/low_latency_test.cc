// Two threads exchange data through lines with flags.
#include "kernels/low_latency.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace mccs {
namespace low_latency_test {

using kernels::LowLatencyLine;
using kernels::LowLatencyLines;
using kernels::Team;

constexpr unsigned char kUntouched = 0xa5;

// The other thread may need this one's processor.
bool Never() {
  std::this_thread::yield();
  return false;
}
bool Always() { return true; }

// The data of use `flag`, which differs from that of other uses.
std::vector<unsigned char> Data(uint64_t bytes, uint32_t flag) {
  std::vector<unsigned char> data(bytes);
  for (uint64_t i = 0; i < bytes; ++i)
    data[i] = static_cast<unsigned char>(i * 31 + flag * 7 + i / 256);
  return data;
}

void Write(const unsigned char* from, uint64_t bytes, uint32_t flag, LowLatencyLine* to,
           uint32_t threads) {
  for (uint32_t index = 0; index < threads; ++index) {
    kernels::WriteLines(from, bytes, flag, to, Team{index, threads});
  }
}

bool Read(const LowLatencyLine* from, uint64_t bytes, uint32_t flag, unsigned char* to,
          uint32_t threads, bool (*stop)()) {
  for (uint32_t index = 0; index < threads; ++index) {
    if (!kernels::ReadLines(from, bytes, flag, to, Team{index, threads}, stop)) return false;
  }
  return true;
}

TEST(LowLatency, CarriesAnyLengthAtAnyAlignment) {
  uint32_t flag = 0;
  for (const uint64_t bytes : {0, 1, 7, 8, 9, 16, 63, 64, 65, 1000, 4096, 32768}) {
    for (const uint64_t skew : {0, 1, 4}) {
      for (const uint32_t threads : {1, 3, 32}) {
        std::vector<unsigned char> data = Data(bytes, ++flag);
        data.insert(data.begin(), skew, 0);
        std::vector<LowLatencyLine> lines(LowLatencyLines(bytes) + 1);
        std::vector<unsigned char> result(bytes + 2 * skew + 16, kUntouched);
        Write(data.data() + skew, bytes, flag, lines.data(), threads);
        ASSERT_TRUE(Read(lines.data(), bytes, flag, result.data() + skew, threads, Always));
        EXPECT_TRUE(std::equal(data.begin() + static_cast<ptrdiff_t>(skew), data.end(),
                               result.begin() + static_cast<ptrdiff_t>(skew)));
        EXPECT_TRUE(std::all_of(result.begin() + static_cast<ptrdiff_t>(skew + bytes), result.end(),
                                [](auto c) { return c == kUntouched; }));
        EXPECT_EQ(lines.back().halves[0], 0u);
      }
    }
  }
}

TEST(LowLatency, NeedsTheFlagInBothHalves) {
  LowLatencyLine line = {};
  kernels::StoreLine(&line, 0x1122334455667788, 5);
  uint64_t data = 0;
  EXPECT_TRUE(kernels::LoadLine(&line, 5, data));
  EXPECT_EQ(data, 0x1122334455667788u);
  EXPECT_FALSE(kernels::LoadLine(&line, 6, data));
  for (int half = 0; half < 2; ++half) {
    LowLatencyLine torn = line;
    torn.halves[half] = uint64_t{4} << 32;
    EXPECT_FALSE(kernels::LoadLine(&torn, 5, data));
  }
}

TEST(LowLatency, ReaderStopsOnRequest) {
  const std::vector<unsigned char> data = Data(64, 1);
  std::vector<LowLatencyLine> lines(LowLatencyLines(64));
  Write(data.data(), 56, 1, lines.data(), 1);  // the last line is missing
  std::vector<unsigned char> result(64);
  EXPECT_FALSE(Read(lines.data(), 64, 1, result.data(), 1, Always));
  Write(data.data(), 64, 1, lines.data(), 1);
  EXPECT_TRUE(Read(lines.data(), 64, 1, result.data(), 1, Always));
  EXPECT_EQ(result, data);
}

// Ping-pong: each side writes use n after it has read use n - 1 of the other side, so that no line
// is written before it was read.
TEST(LowLatency, TwoThreadsExchangeManyUsesOfTheSameLines) {
  constexpr uint32_t kUses = 2'000;
  constexpr uint64_t kBytes = 200;
  std::vector<LowLatencyLine> there(LowLatencyLines(kBytes)), back(LowLatencyLines(kBytes));
  std::atomic<uint32_t> correct = 0;
  std::thread echo([&] {
    std::vector<unsigned char> data(kBytes);
    for (uint32_t flag = 1; flag <= kUses; ++flag) {
      Read(there.data(), kBytes, flag, data.data(), 1, Never);
      for (unsigned char& c : data) ++c;
      Write(data.data(), kBytes, flag, back.data(), 1);
    }
  });
  for (uint32_t flag = 1; flag <= kUses; ++flag) {
    std::vector<unsigned char> data = Data(kBytes, flag), result(kBytes);
    Write(data.data(), kBytes, flag, there.data(), 1);
    Read(back.data(), kBytes, flag, result.data(), 1, Never);
    for (unsigned char& c : data) ++c;
    if (result == data) ++correct;
  }
  echo.join();
  EXPECT_EQ(correct, kUses);
}

}  // namespace low_latency_test
}  // namespace mccs
