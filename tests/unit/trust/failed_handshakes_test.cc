#include "trust/grpc/failed_handshakes.h"

#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace failed_handshakes_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Reason(const std::string& text) {
  const auto refused = RefusedPeerIn(absl::StrCat(
      "Handshake failed with fatal error SSL_ERROR_SSL: error:0A0000C7:SSL routines::", text, "."));
  return refused.has_value() ? RefusalName(refused->reason) : "";
}

TEST(FailedHandshakesTest, ClassifiesTheLinesOfGrpc) {
  EXPECT_EQ(Reason("peer did not return a certificate"), "missing");
  EXPECT_EQ(Reason("wrong version number"), "missing");
  EXPECT_EQ(Reason("http request"), "missing");
  EXPECT_EQ(Reason("tlsv1 alert unknown ca"), "foreign");
  EXPECT_EQ(Reason("no shared cipher"), "other");
  EXPECT_THAT(RefusedPeerIn("Handshake failed with fatal error SSL_ERROR_SYSCALL: "
                            "error:00000000:lib(0)::reason(0).")
                  ->message,
              HasSubstr("failed (reason(0))"));
  EXPECT_EQ(RefusedPeerIn("Corruption detected."), std::nullopt);
}

TEST(FailedHandshakesTest, TakesGrpcsLogWhileItExists) {
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // the default, once gRPC is initialized
  std::vector<std::string> reasons;
  {
    const FailedHandshakes failed(
        [&](const RefusedPeer& client) { reasons.emplace_back(RefusalName(client.reason)); },
        /*print=*/false);
    gpr_log(GPR_ERROR, "Handshake failed with fatal error SSL_ERROR_SSL: error:1:SSL routines::%s.",
            "http request");
    gpr_log(GPR_ERROR, "Corruption detected.");
  }
  gpr_log(GPR_ERROR, "Handshake failed with fatal error SSL_ERROR_SSL: error:1:SSL routines::%s.",
          "http request");
  EXPECT_THAT(reasons, ElementsAre("missing"));
}

}  // namespace failed_handshakes_test
}  // namespace mccs
