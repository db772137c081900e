// Two threads exchange data through lines with flags.
#include "kernels/low_latency.h"

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace mccs {
namespace low_latency_test {

using kernels::LowLatencyLine;
using kernels::LowLatencyLines;

// The data of use `flag`, which differs from that of other uses.
std::vector<unsigned char> Data(uint64_t bytes, uint32_t flag) {
  std::vector<unsigned char> data(bytes);
  for (uint64_t i = 0; i < bytes; ++i)
    data[i] = static_cast<unsigned char>(i * 31 + flag * 7 + i / 256);
  return data;
}

// The data of this use; empty: some is missing.
std::vector<unsigned char> Read(const std::vector<LowLatencyLine>& lines, uint64_t bytes,
                                uint32_t flag) {
  std::vector<unsigned char> data(lines.size() * kernels::kLowLatencyLineBytes);
  for (uint64_t i = 0; i < LowLatencyLines(bytes); ++i) {
    uint64_t word = 0;
    if (!kernels::LoadLine(&lines[i], flag, word)) return {};
    std::memcpy(data.data() + i * sizeof(word), &word, sizeof(word));
  }
  data.resize(bytes);
  return data;
}

TEST(LowLatency, CarriesAnyLength) {
  uint32_t flag = 0;
  for (const uint64_t bytes : {1, 7, 8, 9, 16, 63, 64, 65, 1000}) {
    const std::vector<unsigned char> data = Data(bytes, ++flag);
    std::vector<LowLatencyLine> lines(LowLatencyLines(bytes) + 1);
    kernels::WriteLines(data.data(), bytes, flag, lines.data());
    EXPECT_EQ(Read(lines, bytes, flag), data);
    EXPECT_EQ(lines.back().halves[0], 0u) << "no line after the last one is written";
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

// Ping-pong: each side writes use n after it has read use n - 1 of the other side, so that no line
// is written before it was read.
TEST(LowLatency, TwoThreadsExchangeManyUsesOfTheSameLines) {
  constexpr uint32_t kUses = 2'000;
  constexpr uint64_t kBytes = 200;
  std::vector<LowLatencyLine> there(LowLatencyLines(kBytes)), back(LowLatencyLines(kBytes));
  const auto await = [](const std::vector<LowLatencyLine>& lines, uint32_t flag) {
    for (;;) {
      std::vector<unsigned char> data = Read(lines, kBytes, flag);
      if (!data.empty()) return data;
      std::this_thread::yield();  // the other thread may need this one's processor
    }
  };
  std::thread echo([&] {
    for (uint32_t flag = 1; flag <= kUses; ++flag) {
      std::vector<unsigned char> data = await(there, flag);
      for (unsigned char& c : data) ++c;
      kernels::WriteLines(data.data(), kBytes, flag, back.data());
    }
  });
  uint32_t correct = 0;
  for (uint32_t flag = 1; flag <= kUses; ++flag) {
    std::vector<unsigned char> data = Data(kBytes, flag);
    kernels::WriteLines(data.data(), kBytes, flag, there.data());
    const std::vector<unsigned char> result = await(back, flag);
    for (unsigned char& c : data) ++c;
    if (result == data) ++correct;
  }
  echo.join();
  EXPECT_EQ(correct, kUses);
}

}  // namespace low_latency_test
}  // namespace mccs
