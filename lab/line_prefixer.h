// Adds a prefix to each line of a stream that arrives in arbitrary pieces, so that many ranks can
// share a terminal without mixing lines.
#ifndef MCCS_LAB_LINE_PREFIXER_H_
#define MCCS_LAB_LINE_PREFIXER_H_

#include <string>
#include <string_view>

namespace mccs::lab {

// Longer lines are split into parts, each with the prefix.
inline constexpr size_t kMaxLineBytes = 64 * 1024;

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // Returns all lines that are complete now.
  std::string Take(std::string_view piece);

  // At the end of the stream: returns the rest as a line.
  std::string Finish();

 private:
  std::string prefix_;
  std::string unfinished_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_LINE_PREFIXER_H_
