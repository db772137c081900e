#include "trust/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mccs {
namespace identity_test {

using testing::HasSubstr;

TEST(IdentityTest, EachKindSurvivesASpiffeId) {
  const std::pair<Identity, std::string> cases[] = {
      {{"mccs", Identity::Kind::kController, ""}, "spiffe://mccs/controller"},
      {{"example.org", Identity::Kind::kHost, "h1"}, "spiffe://example.org/host/h1"},
      {{"mccs", Identity::Kind::kOperator, "alice"}, "spiffe://mccs/operator/alice"}};
  for (const auto& [identity, text] : cases) {
    EXPECT_EQ(ToString(identity), text);
    const absl::StatusOr<Identity> parsed = ParseIdentity(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, identity);
  }
}

TEST(IdentityTest, RejectsEverythingElse) {
  for (const char* text : {"", "spiffe://", "spiffe://mccs", "spiffe://mccs/", "spiffe://mccs/host",
                           "https://mccs/host/h1", "spiffe://mccs/host/", "spiffe://mccs/host/h1/",
                           "spiffe://mccs/host/h1/extra", "spiffe://mccs/controller/c1",
                           "spiffe://mccs/tenant/a", "spiffe://mccs/host/h 1",
                           "spiffe://mccs/host/..", "spiffe:///host/h1", "SPIFFE://mccs/host/h1"}) {
    EXPECT_THAT(std::string(ParseIdentity(text).status().message()), HasSubstr("expected")) << text;
  }
}

TEST(IdentityTest, ALongNameIsQuotedInPart) {
  const std::string text = "spiffe://mccs/host/" + std::string(100'000, 'a');
  EXPECT_LT(ParseIdentity(text).status().message().size(), 1000u);
}

TEST(IdentityTest, DescribesForPeople) {
  EXPECT_EQ(Describe({"mccs", Identity::Kind::kController, ""}), "the controller");
  EXPECT_EQ(Describe({"mccs", Identity::Kind::kHost, "h1"}), "host h1");
}

}  // namespace identity_test
}  // namespace mccs
