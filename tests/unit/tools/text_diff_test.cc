#include "tools/mccsctl/text_diff.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace text_diff_test {

std::string Diff(const std::string& before, const std::string& after) {
  return UnifiedDiff({"old", before}, {"new", after});
}

TEST(UnifiedDiff, EqualTextsHaveNone) { EXPECT_EQ(Diff("a\nb\n", "a\nb\n"), ""); }

TEST(UnifiedDiff, AChangeHasThreeLinesAround) {
  EXPECT_EQ(Diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
            "--- old\n+++ new\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST(UnifiedDiff, ShowsAddedAndRemovedTextsWhole) {
  EXPECT_EQ(Diff("", "a\nb\n"), "--- old\n+++ new\n@@ -0,0 +1,2 @@\n+a\n+b\n");
  EXPECT_EQ(Diff("a\n", ""), "--- old\n+++ new\n@@ -1 +0,0 @@\n-a\n");
}

TEST(UnifiedDiff, NearChangesShareAHunkAndFarOnesDoNot) {
  const std::string near = Diff("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n");
  EXPECT_EQ(near, "--- old\n+++ new\n@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
  const std::string far = Diff("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n");
  EXPECT_EQ(far,
            "--- old\n+++ new\n@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n"
            "-b\n+B\n");
}

// Applies `diff` to `before`, as patch does.
std::string Patch(const std::string& before, const std::string& diff) {
  std::vector<std::string> old_lines;
  std::string line, out;
  for (std::istringstream in(before); std::getline(in, line);) old_lines.push_back(line);
  size_t at = 0;
  std::istringstream in(diff);
  std::getline(in, line);
  std::getline(in, line);
  while (std::getline(in, line)) {
    if (line.starts_with("@@ -")) {
      const size_t begin = std::stoul(line.substr(4));
      const bool nothing = line.find(",0 +") != std::string::npos;
      for (; at < begin - (nothing ? 0 : 1); ++at) out += old_lines[at] + "\n";
    } else {
      if (line[0] != '+') {
        EXPECT_EQ(line.substr(1), old_lines.at(at++));
      }
      if (line[0] != '-') out += line.substr(1) + "\n";
    }
  }
  for (; at < old_lines.size(); ++at) out += old_lines[at] + "\n";
  return out;
}

TEST(UnifiedDiff, AppliedToTheFirstGivesTheSecond) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::string texts[2];
    for (std::string& text : texts) {
      for (size_t n = random() % 25; n > 0; --n) absl::StrAppend(&text, random() % 4, "\n");
    }
    ASSERT_EQ(Patch(texts[0], texts[0] == texts[1] ? "" : Diff(texts[0], texts[1])), texts[1])
        << "seed " << seed << ", round " << round << "\n"
        << Diff(texts[0], texts[1]);
  }
}

TEST(UnifiedDiff, LongTextsThatDifferThroughoutAreReplacedWhole) {
  std::string before, after;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&before, "b", i, "\n");
    absl::StrAppend(&after, "a", i, "\n");
  }
  EXPECT_EQ(Patch(before, Diff(before, after)), after);
}

}  // namespace text_diff_test
}  // namespace mccs
