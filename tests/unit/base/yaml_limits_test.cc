#include "base/yaml_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace yaml_limits_test {

using testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  return std::string(CheckYaml(text, "x.yaml").message());
}

// Lists within lists, each the only value of the next one by an alias.
std::string AliasChain(int length) {
  std::string text = "x:\n- &a0 [1]\n";
  for (int i = 1; i < length; ++i) absl::StrAppend(&text, "- &a", i, " [*a", i - 1, "]\n");
  return text;
}

TEST(YamlLimits, AcceptsOrdinaryTexts) {
  EXPECT_EQ(ErrorOf(""), "");
  EXPECT_EQ(ErrorOf("a: &a {b: [1, 2], ? [c] : d, e: }\nf: *a\n--- 3\n"), "");
}

TEST(YamlLimits, RejectsMalformedTextWithItsPlace) {
  EXPECT_THAT(ErrorOf("a: 1\nb: [\n"), HasSubstr("x.yaml:3:1: malformed YAML: "));
  EXPECT_THAT(ErrorOf(","), HasSubstr("malformed YAML: unexpected character"));
}

TEST(YamlLimits, CountsEachUseOfAnAlias) {
  std::string text = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 25; ++i) {
    absl::StrAppend(&text, "a", i, ": &a", i, " [*a", i - 1, ", *a", i - 1, "]\n");
  }
  EXPECT_THAT(ErrorOf(text), HasSubstr(": too many values: at most 200000 in a text"));
}

TEST(YamlLimits, CountsValuesOfAllDocumentsButNoKeys) {
  const auto document = [](int values) {
    std::string text = "---\n";  // One value itself.
    for (int i = 1; i < values; ++i) absl::StrAppend(&text, "k", i, ": v\n");
    return text;
  };
  EXPECT_EQ(ErrorOf(document(100'000) + document(100'000)), "");
  EXPECT_THAT(ErrorOf(document(100'000) + document(100'001)),
              HasSubstr("x.yaml:200001:10: too many values"));
}

TEST(YamlLimits, CountsLevelsAlsoThroughAliases) {
  EXPECT_EQ(ErrorOf("a: " + std::string(31, '[') + "1" + std::string(31, ']')), "");
  EXPECT_THAT(ErrorOf("a: " + std::string(32, '[') + "1" + std::string(32, ']')),
              HasSubstr("x.yaml:1:36: nested too deeply: at most 32 levels"));
  EXPECT_EQ(ErrorOf(AliasChain(30)), "");
  // To copy the last one would use up the stack.
  EXPECT_THAT(ErrorOf(AliasChain(100'000)), HasSubstr(": nested too deeply: at most 32 levels"));
}

TEST(YamlLimits, RejectsAValueThatContainsItself) {
  EXPECT_THAT(ErrorOf("a: &a [*a]\n"), HasSubstr("x.yaml:1:8: a value contains itself"));
}

TEST(YamlLimits, RejectsLongKeys) {
  EXPECT_EQ(ErrorOf("? " + std::string(1024, 'k') + "\n: v\n"), "");
  EXPECT_THAT(ErrorOf("? " + std::string(1025, 'k') + "\n: v\n"),
              HasSubstr("x.yaml:1:3: a key has more than 1024 bytes"));
  EXPECT_EQ(ErrorOf("k: " + std::string(5000, 'v') + "\n"), "");
}

}  // namespace yaml_limits_test
}  // namespace mccs
