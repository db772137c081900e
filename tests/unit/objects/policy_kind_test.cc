// Every row of the table of types is complete: read, stored, and documented. planner_test runs
// them.
#include "controller/objects/policy_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_join.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace policy_kind_test {

class PolicyKinds : public testing::TestWithParam<PolicyTraits> {};

TEST_P(PolicyKinds, HasTheTableIndexOfItsValue) {
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

// The message names the parameters that it has.
TEST_P(PolicyKinds, AcceptsOnlyItsParameters) {
  for (size_t i = 0; i < std::size(kPolicyParameterNames); ++i) {
    if (GetParam().parameters.Contains(static_cast<PolicyParameter>(i))) continue;
    const std::string rejection =
        Rejection(PolicyDocument("p", absl::StrCat("  type: ", GetParam().name, "\n  parameters: {",
                                                   kPolicyParameterNames[i], ": 1}\n")));
    EXPECT_THAT(
        rejection,
        testing::HasSubstr(absl::StrCat(
            "policy ", GetParam().name, " has no parameter '", kPolicyParameterNames[i],
            "'; remove it, or use one of: ", absl::StrJoin(NamesOf(GetParam().parameters), ", "))));
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
    EXPECT_THAT(row, testing::HasSubstr(absl::StrCat("`", parameter, "` (required)")));
}

INSTANTIATE_TEST_SUITE_P(Table, PolicyKinds, testing::ValuesIn(kPolicyTraits),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace policy_kind_test
}  // namespace mccs
