#include "base/utf8.h"

#include <gtest/gtest.h>

namespace mccs {
namespace utf8_test {

TEST(CutText, KeepsWholeCharacters) {
  // Characters of one, two, three and four bytes.
  const std::string text = "a\u00e4\u2192\U0001F600";
  ASSERT_EQ(text.size(), 10u);
  const size_t kept[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t most = 0; most < std::size(kept); ++most) {
    EXPECT_EQ(CutText(text, most), text.substr(0, kept[most])) << most;
  }
}

TEST(CutText, InvalidUtf8LosesAtMostOneCharacter) {
  const std::string text(100, '\x80');
  EXPECT_EQ(CutText(text, 50).size(), 46u);
  EXPECT_EQ(CutText(text, 2).size(), 0u);
}

TEST(AsUtf8, ReplacesOnlyInvalidBytes) {
  const std::string text = "/jobs/a\u00e4\u2192\U0001F600";
  EXPECT_EQ(AsUtf8(text), text);
  EXPECT_EQ(AsUtf8(""), "");
  EXPECT_EQ(AsUtf8("/a\xff/b"), "/a?/b");
  EXPECT_EQ(AsUtf8("\xe2\x86"), "??") << "a truncated character";
  EXPECT_EQ(AsUtf8("\xc0\xaf \xed\xa0\x80"), "?? ???") << "overlong encoding, UTF-16 surrogate";
}

}  // namespace utf8_test
}  // namespace mccs
