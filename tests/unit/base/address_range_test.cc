#include "base/address_range.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

namespace mccs {
namespace address_range_test {

constexpr uint64_t kTop = UINT64_MAX;

TEST(AddressRange, ContainsItsBytesAndNoOthers) {
  const AddressRange range{100, 10};
  EXPECT_FALSE(range.Contains(99));
  EXPECT_TRUE(range.Contains(100));
  EXPECT_TRUE(range.Contains(109));
  EXPECT_FALSE(range.Contains(110));
  EXPECT_FALSE((AddressRange{100, 0}).Contains(100));
}

TEST(AddressRange, ContainsInnerRanges) {
  const AddressRange range{100, 10};
  EXPECT_TRUE(range.Contains(AddressRange{100, 10}));
  EXPECT_TRUE(range.Contains(AddressRange{109, 1}));
  EXPECT_FALSE(range.Contains(AddressRange{99, 2}));
  EXPECT_FALSE(range.Contains(AddressRange{109, 2}));
  // A length that would overflow.
  EXPECT_FALSE(range.Contains(AddressRange{105, kTop}));
}

TEST(AddressRange, NeighboursDoNotOverlap) {
  const AddressRange range{100, 10};
  EXPECT_FALSE(range.Overlaps({90, 10}));
  EXPECT_TRUE(range.Overlaps({90, 11}));
  EXPECT_TRUE(range.Overlaps({109, 1}));
  EXPECT_FALSE(range.Overlaps({110, 1}));
  EXPECT_TRUE(range.Overlaps({0, kTop}));
  EXPECT_TRUE((AddressRange{kTop - 1, 1}).Overlaps({0, kTop}));
}

TEST(FirstAfter, FindsTheRangeAroundAnAddressElseTheNext) {
  std::map<uint64_t, uint64_t> ranges{{100, 10}, {110, 5}, {200, 1}};
  const auto first = [&](uint64_t address) -> uint64_t {
    const auto it = FirstAfter(ranges, address, [](uint64_t bytes) { return bytes; });
    return it == ranges.end() ? 0 : it->first;
  };
  EXPECT_EQ(first(0), 100u);
  EXPECT_EQ(first(100), 100u);
  EXPECT_EQ(first(109), 100u);
  EXPECT_EQ(first(110), 110u);
  EXPECT_EQ(first(115), 200u);
  EXPECT_EQ(first(200), 200u);
  EXPECT_EQ(first(201), 0u);
}

}  // namespace address_range_test
}  // namespace mccs
