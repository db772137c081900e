#include "base/socket_endpoint.h"

#include <gtest/gtest.h>

namespace mccs {
namespace socket_endpoint_test {

TEST(SocketEndpoint, ANetworkIsAnAddressOfIpv4OrA64OfIpv6) {
  EXPECT_EQ(NetworkOf("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(NetworkOf("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(NetworkOf("2001:db8:0:1:2:3:4:5"), "2001:db8:0:1::/64");
  EXPECT_EQ(NetworkOf("h0"), "h0");
}

TEST(SocketEndpoint, ADescriptorThatIsNoSocketHasNone) {
  EXPECT_EQ(LocalEndpoint(-1), Endpoint{});
  EXPECT_EQ(RemoteEndpoint(-1), Endpoint{});
}

}  // namespace socket_endpoint_test
}  // namespace mccs
