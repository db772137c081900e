// Two texts side by side, as `diff -u` shows them. Pure.
#ifndef MCCS_TOOLS_MCCSCTL_TEXT_DIFF_H_
#define MCCS_TOOLS_MCCSCTL_TEXT_DIFF_H_

#include <string>

namespace mccs {

struct NamedText {
  std::string name;
  std::string text;
};

// Unified, with three lines around each change; empty where the texts are the same. The fewest
// changed lines, unless the parts that differ are so long that they are shown as replaced whole.
std::string UnifiedDiff(const NamedText& before, const NamedText& after);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_TEXT_DIFF_H_
