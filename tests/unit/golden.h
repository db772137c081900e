// Golden files: whole messages as users see them, under tests/golden. Other tests assert a status
// code and the fields that a message must name, so a new wording changes golden files only.
#ifndef MCCS_TESTS_UNIT_GOLDEN_H_
#define MCCS_TESTS_UNIT_GOLDEN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"

namespace mccs {

// The lines between the texts' common first and last lines: "-" those of `before`, "+" of `after`.
inline std::string LineDifference(const std::string& before, const std::string& after) {
  const std::vector<std::string> old = absl::StrSplit(before, '\n');
  const std::vector<std::string> now = absl::StrSplit(after, '\n');
  const size_t shorter = std::min(old.size(), now.size());
  size_t first = 0;
  while (first < shorter && old[first] == now[first]) ++first;
  size_t last = 0;
  while (last < shorter - first && old[old.size() - 1 - last] == now[now.size() - 1 - last]) ++last;
  std::string out = "line " + std::to_string(first + 1) + ":\n";
  for (size_t i = first; i < old.size() - last; ++i) out += "- " + old[i] + "\n";
  for (size_t i = first; i < now.size() - last; ++i) out += "+ " + now[i] + "\n";
  return out;
}

// The content of a file of the repository.
// REQUIRES: the working directory is the repository's root, as ctest sets it.
inline std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Expects tests/golden/`name` to be `text`. With MCCS_UPDATE_GOLDEN=1 it writes the file instead.
inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = "tests/golden/" + name;
  if (const char* update = std::getenv("MCCS_UPDATE_GOLDEN");
      update != nullptr && std::string_view(update) == "1") {
    std::ofstream(path, std::ios::binary) << text;
  }
  const std::string golden = ContentOf(path);
  EXPECT_TRUE(golden == text) << path << " differs, " << LineDifference(golden, text)
                              << "If the new text is right, run ./scripts/update_golden and "
                                 "review the difference.";
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_GOLDEN_H_
