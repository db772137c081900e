#include "base/units.h"

#include <gtest/gtest.h>

namespace mccs {
namespace units_test {

TEST(Bytes, AreReadAsTheyAreWritten) {
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{512}, 4 * kKiB, 16 * kMiB, kMiB + kMiB / 2, 3 * kGiB}) {
    EXPECT_EQ(ParseBytes(FormatBytes(bytes)), bytes) << FormatBytes(bytes);
  }
}

TEST(Bytes, BareNumbersAndUnitsWithoutASpaceAreRead) {
  EXPECT_EQ(ParseBytes("4096"), 4096u);
  EXPECT_EQ(ParseBytes("16MiB"), 16 * kMiB);
  EXPECT_EQ(ParseBytes("0.5 KiB"), 512u);
  EXPECT_EQ(ParseBytes("64M"), 64 * kMiB);
  EXPECT_EQ(ParseBytes("8K"), 8 * kKiB);
}

TEST(Bytes, RejectsInvalidByteSizes) {
  for (const char* text : {"", "MiB", "-1", "1.5", "0.3 KiB", "16MB", "16 mib", "1  KiB", "1e3",
                           "1.2.3KiB", "99999999999999999999", "16777216 PiB", "4096 B "}) {
    EXPECT_EQ(ParseBytes(text), std::nullopt) << text;
  }
}

TEST(BitRates, AreReadExactly) {
  EXPECT_EQ(ParseBitRate("50Gbps"), 50'000'000'000u);
  EXPECT_EQ(ParseBitRate("50Gbit/s"), 50'000'000'000u);
  EXPECT_EQ(ParseBitRate("2.5 kbit/s"), 2'500u);
  EXPECT_EQ(ParseBitRate("7 bit/s"), 7u);
  EXPECT_EQ(ParseBitRate("200 Mbps"), 200'000'000u);
  EXPECT_EQ(ParseBitRate("9600bps"), 9600u);
  EXPECT_EQ(ParseBitRate("0.3Kbps"), 300u);
  EXPECT_EQ(ParseBitRate("1.123456789Gbps"), 1'123'456'789u);
  EXPECT_EQ(ParseBitRate("2.500Tbps"), 2'500'000'000'000u);
  EXPECT_EQ(ParseBitRate("0bps"), 0u);
}

TEST(BitRates, RejectsInvalidRates) {
  for (const char* text : {"",
                           "50",
                           "Gbps",
                           "-5Gbps",
                           "5GBps",
                           "5gbps",
                           "5Gb/s",
                           "1.5bps",
                           "1.Gbps",
                           ".5Gbps",
                           "1.2.3Gbps",
                           "5  Gbps",
                           "5Gbps ",
                           "1.0001Kbps",
                           "1e3bps",
                           "5GBit/s",
                           "5Gbit",
                           "5 bit/s/s",
                           "5GGbit/s",
                           "99999999999Tbps",
                           "99999999999999999999999bps"}) {
    EXPECT_EQ(ParseBitRate(text), std::nullopt) << text;
  }
}

TEST(BitRates, AreWrittenInTheUnitThatFits) {
  EXPECT_EQ(FormatBitRate(50e9), "50 Gbit/s");
  EXPECT_EQ(FormatBitRate(187.5e6), "187.5 Mbit/s");
  EXPECT_EQ(FormatBitRate(62.3456e9), "62.346 Gbit/s");
  EXPECT_EQ(FormatBitRate(0), "0 bit/s");
  EXPECT_EQ(FormatBitRate(1e16), "10000 Tbit/s");
}

TEST(Ages, ShowTheTwoLargestUnits) {
  constexpr int64_t kSecond = 1'000'000'000;
  EXPECT_EQ(FormatAge(850'000'000), "850 ms");
  EXPECT_EQ(FormatAge(-5), "0 ms");
  EXPECT_EQ(FormatAge(12 * kSecond), "12 s");
  EXPECT_EQ(FormatAge(185 * kSecond), "3 min 5 s");
  EXPECT_EQ(FormatAge(7200 * kSecond), "2 h");
  EXPECT_EQ(FormatAge((2 * 86'400 + 59) * kSecond), "2 d");
  EXPECT_EQ(FormatAge((86'400 + 3'600) * kSecond), "1 d 1 h");
}

TEST(FormatMilliseconds, HasFourDigits) {
  EXPECT_EQ(FormatMilliseconds(4'250'000), "4.25 ms");
  EXPECT_EQ(FormatMilliseconds(1'234'567'000), "1235 ms");
  EXPECT_EQ(FormatMilliseconds(0), "0 ms");
}

}  // namespace units_test
}  // namespace mccs
