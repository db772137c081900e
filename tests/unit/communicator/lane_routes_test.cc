#include "service/communicator/lanes/lane_routes.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mccs {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

LaneRoutes::Addresses Nics(std::vector<std::string> addresses) {
  return std::make_shared<const std::vector<std::string>>(std::move(addresses));
}

DialRoute Route(const std::string& from, const std::string& to, uint16_t source_port = 0) {
  return {.to = {to, 7400}, .connect = {.source_host = from, .source_port = source_port}};
}

class LaneRoutesTest : public ::testing::Test {
 protected:
  // "a0>b0" of the first attempts.
  std::vector<std::string> Attempts(const LaneRoutes& routes, int count, const DialRoute& current,
                                    const DialRoute& chosen) const {
    std::vector<std::string> names;
    for (int attempt = 0; attempt < count; ++attempt) {
      const DialRoute route = routes.Attempt(
          attempt, current, chosen, [&](const std::string& nic) { return nic != without_link_; });
      EXPECT_EQ(route.to.port, 7400);
      names.push_back(route.connect.source_host + ">" + route.to.host);
      if (route.connect.source_port != 0)
        names.back() += ":" + std::to_string(route.connect.source_port);
    }
    return names;
  }

  const LaneRoutes two_{Nics({"a0", "a1"}), Nics({"b0", "b1"})};
  std::string without_link_;
};

TEST_F(LaneRoutesTest, OneNicHasOneRoute) {
  const LaneRoutes one(Nics({"a0"}), Nics({"b0"}));
  EXPECT_FALSE(one.has_others());
  EXPECT_THAT(Attempts(one, 3, Route("a0", "b0", 5), Route("a0", "b0", 5)), Each("a0>b0:5"));
  without_link_ = "a0";
  EXPECT_THAT(Attempts(one, 3, Route("a0", "b0", 5), Route("a0", "b0", 5)), Each("a0>b0:5"));
}

TEST_F(LaneRoutesTest, WithoutListsThereIsOneRoute) {
  const LaneRoutes none(nullptr, nullptr);
  EXPECT_FALSE(none.has_others());
  EXPECT_THAT(Attempts(none, 3, Route("", "b0"), Route("", "b0")), Each(">b0"));
}

TEST_F(LaneRoutesTest, EverySecondAttemptIsAnAlternative) {
  EXPECT_TRUE(two_.has_others());
  const DialRoute route = Route("a0", "b0", 5);
  EXPECT_THAT(Attempts(two_, 8, route, route), ElementsAre("a0>b0:5", "a1>b1", "a0>b0:5", "a1>b0",
                                                           "a0>b0:5", "a0>b1", "a0>b0:5", "a1>b1"));
}

TEST_F(LaneRoutesTest, TheChosenRouteIsTheFirstAlternative) {
  EXPECT_THAT(Attempts(two_, 4, Route("a1", "b1"), Route("a0", "b0", 5)),
              ElementsAre("a1>b1", "a0>b0:5", "a1>b1", "a0>b1"));
}

TEST_F(LaneRoutesTest, NoAttemptFromANicWithoutLink) {
  without_link_ = "a0";
  const DialRoute route = Route("a0", "b0", 5);
  EXPECT_THAT(Attempts(two_, 3, route, route), ElementsAre("a1>b1", "a1>b0", "a1>b1"));
}

TEST_F(LaneRoutesTest, PairsOfOneRailComeFirstAndNicsDiffer) {
  const LaneRoutes routes(Nics({"a0", "a1", "a2"}), Nics({"b0", "b1", "b2"}));
  EXPECT_THAT(Attempts(routes, 4, Route("a0", "b0"), Route("a0", "b0")),
              ElementsAre("a0>b0", "a1>b1", "a0>b0", "a2>b2"));
  EXPECT_THAT(Attempts(routes, 4, Route("a1", "b1"), Route("a1", "b1")),
              ElementsAre("a1>b1", "a2>b2", "a1>b1", "a0>b0"));
}

}  // namespace
}  // namespace mccs
