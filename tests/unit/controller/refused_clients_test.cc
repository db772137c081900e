#include "controller/api/refused_clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/controller/manual_clock.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace refused_clients_test {

using testing::ElementsAre;

class RefusedClientsTest : public testing::Test {
 protected:
  void Add(RefusalReason reason, const std::string& subject) {
    clients_.Add({.reason = reason, .subject = subject, .message = "it is of " + subject});
  }

  RecordingLog log_;
  ManualClock clock_;
  RefusedClients clients_{log_, clock_};
};

TEST_F(RefusedClientsTest, CountsAndLogsByReason) {
  Add(RefusalReason::kExpired, "CN=host h1");
  Add(RefusalReason::kForeign, "CN=host h1");
  Add(RefusalReason::kForeign, "CN=host h2");
  EXPECT_THAT(log_.lines, ElementsAre("refused a client: it is of CN=host h1",
                                      "refused a client: it is of CN=host h1",
                                      "refused a client: it is of CN=host h2"));
  EXPECT_THAT(clients_.counts(), ElementsAre(1, 2, 0, 0, 0));
}

TEST_F(RefusedClientsTest, AClientThatTriesAgainIsLoggedOncePerMinute) {
  for (int i = 0; i < 59; ++i) {
    Add(RefusalReason::kExpired, "CN=host h1");
    clock_.now += kNsPerSec;
  }
  EXPECT_EQ(log_.lines.size(), 1u);
  clock_.now += kNsPerSec;
  Add(RefusalReason::kExpired, "CN=host h1");
  EXPECT_EQ(log_.lines.size(), 2u);
  EXPECT_EQ(clients_.counts()[0], 60u);
}

// Their messages differ where a client does several things that it may not.
TEST_F(RefusedClientsTest, EachCallThatAClientMayNotMakeIsLogged) {
  for (const char* const what : {"it has no role", "it is no host", "it has no role"})
    clients_.Add({.reason = RefusalReason::kUnauthorized, .subject = "", .message = what});
  EXPECT_THAT(log_.lines,
              ElementsAre("refused a client: it has no role", "refused a client: it is no host"));
  EXPECT_THAT(clients_.counts(), ElementsAre(0, 0, 0, 3, 0));
}

TEST_F(RefusedClientsTest, AFloodDoesNotFillTheLogOrHideOtherReasons) {
  for (int i = 0; i < 10'000; ++i) Add(RefusalReason::kForeign, absl::StrCat("CN=", i));
  EXPECT_EQ(log_.lines.size(), static_cast<size_t>(RefusedClients::kLines));
  EXPECT_TRUE(
      log_.lines.back().ends_with("further lines for this reason are suppressed for a "
                                  "minute"));
  Add(RefusalReason::kExpired, "CN=host h1");
  EXPECT_TRUE(log_.Contains("CN=host h1"));
  EXPECT_EQ(clients_.counts()[1], 10'000u);
}

}  // namespace refused_clients_test
}  // namespace mccs
