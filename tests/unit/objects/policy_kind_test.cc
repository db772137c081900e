// Every row of the table of types is complete: read, stored, and documented. run_policies_test runs
// them.
#include "controller/objects/policy_kind.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_join.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace policy_kind_test {

class PolicyKinds : public testing::TestWithParam<PolicyTraits> {};

TEST_P(PolicyKinds, StandsAtItsPlaceInTheTable) {
  EXPECT_EQ(&TraitsOf(GetParam().kind) - kPolicyTraits, static_cast<int>(GetParam().kind));
  EXPECT_STREQ(Name(GetParam().kind), GetParam().name);
}

TEST_P(PolicyKinds, ReadsWhatItWrites) {
  const std::vector<Object> read = Read(ShortestPolicy("p", GetParam()));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(PolicyOf(read[0]).type, GetParam().kind);
  const std::vector<Object> again = Read(DocumentOf(read[0], /*with_version=*/false));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(PolicyOf(again[0]), PolicyOf(read[0]));
}

TEST_P(PolicyKinds, AcceptsOnlyItsParameters) {
  for (size_t i = 0; i < std::size(kPolicyParameterNames); ++i) {
    if (GetParam().parameters.Contains(static_cast<PolicyParameter>(i))) continue;
    const std::string refusal =
        Refusal(PolicyDocument("p", absl::StrCat("  type: ", GetParam().name, "\n  parameters: {",
                                                 kPolicyParameterNames[i], ": 1}\n")));
    EXPECT_NE(refusal.find(absl::StrCat("policy ", GetParam().name, " has no parameter '",
                                        kPolicyParameterNames[i], "'")),
              std::string::npos)
        << refusal;
  }
}

// The page for operators has a row for each type, with its effect and its own parameters.
TEST_P(PolicyKinds, IsDocumentedForOperators) {
  std::ifstream in("docs/operators/policies.md");
  ASSERT_TRUE(in.good());
  const std::string start = absl::StrCat("| `", GetParam().name, "` | ", GetParam().effect);
  std::string row;
  while (std::getline(in, row) && !row.starts_with(start)) {
  }
  ASSERT_TRUE(row.starts_with(start)) << "no row starts with: " << start;
  for (const std::string& parameter : NamesOf(GetParam().required))
    EXPECT_NE(row.find(absl::StrCat("`", parameter, "` (required)")), std::string::npos) << row;
}

INSTANTIATE_TEST_SUITE_P(Table, PolicyKinds, testing::ValuesIn(kPolicyTraits),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace policy_kind_test
}  // namespace mccs
