#include "base/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mccs {
namespace endpoint_test {

using testing::HasSubstr;

TEST(ParseEndpoint, TakesBothFamilies) {
  EXPECT_EQ(*ParseEndpoint("10.0.0.1:7400"), (Endpoint{"10.0.0.1", 7400}));
  EXPECT_EQ(*ParseEndpoint("[::1]:1"), (Endpoint{"::1", 1}));
  for (const char* bad : {"", "host", "host:", ":1", "h:65536", "h:-1", "h:1x", "[]:"}) {
    EXPECT_FALSE(ParseEndpoint(bad).ok()) << bad;
  }
}

TEST(NumericAddress, AcceptsOnlyAddressesOfEitherFamily) {
  for (const char* good : {"10.0.0.1", "::1", "fe80::1", "::ffff:10.0.0.1"})
    EXPECT_TRUE(IsNumericAddress(good)) << good;
  for (const char* bad : {"", "localhost", "10.0.0", "[::1]", "fe80::1%lo", "10.0.0.1 "}) {
    EXPECT_FALSE(IsNumericAddress(bad)) << bad;
  }
}

TEST(LoopbackAddress, IsAWholeNetworkInIpv4) {
  for (const char* good : {"127.0.0.1", "127.0.1.1", "::1"})
    EXPECT_TRUE(IsLoopbackAddress(good)) << good;
  for (const char* bad : {"", "localhost", "128.0.0.1", "10.127.0.1", "::"})
    EXPECT_FALSE(IsLoopbackAddress(bad)) << bad;
}

TEST(WildcardAddress, OfEitherFamily) {
  for (const char* good : {"0.0.0.0", "::"}) EXPECT_TRUE(IsWildcardAddress(good)) << good;
  for (const char* bad : {"", "::1", "10.0.0.0", "*"}) EXPECT_FALSE(IsWildcardAddress(bad)) << bad;
}

TEST(ResolveHost, PrefersIpv4) { EXPECT_EQ(*ResolveHost("localhost"), "127.0.0.1"); }

TEST(ResolveHost, CanonicalizesAddresses) {
  EXPECT_EQ(*ResolveHost("0.0.0.0"), "0.0.0.0");
  EXPECT_EQ(*ResolveHost("0:0:0:0:0:0:0:1"), "::1");
}

TEST(ResolveHost, NamesAnUnknownHost) {
  for (const char* bad : {"", "no..such"}) {
    const auto address = ResolveHost(bad);
    ASSERT_FALSE(address.ok()) << bad;
    EXPECT_EQ(address.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(address.status().message()), HasSubstr(bad));
  }
}

}  // namespace endpoint_test
}  // namespace mccs
