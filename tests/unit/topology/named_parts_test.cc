#include "topology/named_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mccs {
namespace named_parts_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Names(std::string_view pattern) {
  const auto names = ExpandNames(pattern);
  EXPECT_TRUE(names.ok()) << names.status();
  return names.value_or(std::vector<std::string>{});
}

std::string ErrorOf(std::string_view pattern) {
  const auto names = ExpandNames(pattern);
  EXPECT_EQ(names.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
  return std::string(names.status().message());
}

TEST(NamePattern, WordExpandsToItself) {
  EXPECT_THAT(Names("h1"), ElementsAre("h1"));
  EXPECT_THAT(Names("10.0.0.1"), ElementsAre("10.0.0.1"));
}

TEST(NamePattern, ExpandsRanges) {
  EXPECT_THAT(Names("h[1-4]"), ElementsAre("h1", "h2", "h3", "h4"));
  EXPECT_THAT(Names("h[0,2,5-6]x"), ElementsAre("h0x", "h2x", "h5x", "h6x"));
  EXPECT_THAT(Names("[7]"), ElementsAre("7"));
}

TEST(NamePattern, NumbersHaveTheWidthOfTheFirst) {
  EXPECT_THAT(Names("h[08-11]"), ElementsAre("h08", "h09", "h10", "h11"));
  EXPECT_THAT(Names("h[8-11]"), ElementsAre("h8", "h9", "h10", "h11"));
}

TEST(NamePattern, LastBracketVariesFastest) {
  EXPECT_THAT(Names("r[0-1]-h[0-1]"), ElementsAre("r0-h0", "r0-h1", "r1-h0", "r1-h1"));
}

TEST(NamePattern, CommasJoinPatterns) {
  EXPECT_THAT(Names("spine0,leaf[0-1]"), ElementsAre("spine0", "leaf0", "leaf1"));
}

TEST(NamePattern, RejectsInvalidPatternsWithARemedy) {
  EXPECT_EQ(ErrorOf("h[0-3"), "'h[0-3' has an unmatched bracket; write ranges as [0-3]");
  EXPECT_THAT(ErrorOf("h0-3]"), HasSubstr("unmatched bracket"));
  EXPECT_THAT(ErrorOf("h[[0]]"), HasSubstr("unmatched bracket"));
  EXPECT_THAT(ErrorOf("h[a-b]"), HasSubstr("something other than numbers"));
  EXPECT_THAT(ErrorOf("h[]"), HasSubstr("something other than numbers"));
  EXPECT_THAT(ErrorOf("h[-3]"), HasSubstr("something other than numbers"));
  EXPECT_THAT(ErrorOf("h[3-1]"), HasSubstr("descending range"));
  EXPECT_THAT(ErrorOf("a,,b"), HasSubstr("empty name"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("empty name"));
}

TEST(NamePattern, LimitsTheNumberOfNames) {
  EXPECT_EQ(Names("h[1-65536]").size(), kMaxNamesOfPattern);
  for (const char* pattern : {"h[0-65536]", "h[0-999999999]", "h[1-300]x[1-300]",
                              "h[1-40000,1-40000]", "h[1-40000],g[1-40000]"}) {
    EXPECT_THAT(ErrorOf(pattern), HasSubstr("more than 65536 names")) << pattern;
  }
  EXPECT_THAT(ErrorOf("h[0-9999999999]"), HasSubstr("something other than numbers"));
}

}  // namespace named_parts_test
}  // namespace mccs
