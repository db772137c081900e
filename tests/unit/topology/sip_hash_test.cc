#include "topology/sip_hash.h"

#include <gtest/gtest.h>

#include <vector>

namespace mccs {
namespace sip_hash_test {

// Test vectors of the paper, appendix A, and of its authors: key 00 01 … 0f, data 00 01 … .
TEST(SipHash, MatchesTheAuthorsTestVectors) {
  constexpr std::array<uint64_t, 2> kKey = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::vector<std::byte> data;
  for (int i = 0; i < 15; ++i) data.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(SipHash24(kKey, {}), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(SipHash24(kKey, std::span(data).first(1)), 0x74f839c593dc67fdu);
  EXPECT_EQ(SipHash24(kKey, std::span(data).first(8)), 0x93f5f5799a932462u);
  EXPECT_EQ(SipHash24(kKey, data), 0xa129ca6149be45e5u);
}

}  // namespace sip_hash_test
}  // namespace mccs
