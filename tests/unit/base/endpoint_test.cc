#include "base/endpoint.h"

#include <gtest/gtest.h>

namespace mccs {
namespace endpoint_test {

TEST(ParseEndpoint, TakesBothFamilies) {
  EXPECT_EQ(*ParseEndpoint("10.0.0.1:7400"), (Endpoint{"10.0.0.1", 7400}));
  EXPECT_EQ(*ParseEndpoint("[::1]:1"), (Endpoint{"::1", 1}));
  for (const char* bad : {"", "host", "host:", ":1", "h:65536", "h:-1", "h:1x", "[]:"}) {
    EXPECT_FALSE(ParseEndpoint(bad).ok()) << bad;
  }
}

}  // namespace endpoint_test
}  // namespace mccs
