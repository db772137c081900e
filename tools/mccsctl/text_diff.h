// Unified diff of two texts, as `diff -u`. Pure.
#ifndef MCCS_TOOLS_MCCSCTL_TEXT_DIFF_H_
#define MCCS_TOOLS_MCCSCTL_TEXT_DIFF_H_

#include <string>

namespace mccs {

struct NamedText {
  std::string name;
  std::string text;
};

// Three lines of context; empty if the texts are equal. The number of changed lines is minimal,
// unless the differing parts are so long that they are shown as replaced.
std::string UnifiedDiff(const NamedText& before, const NamedText& after);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_TEXT_DIFF_H_
