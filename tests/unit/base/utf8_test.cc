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

TEST(CutText, EndsBeforeAnInvalidByte) {
  EXPECT_EQ(CutText("rank 3\xff failed", 50), "rank 3");
  EXPECT_EQ(CutText("\x80", 2), "");
}

}  // namespace utf8_test
}  // namespace mccs
