// Puts a prefix before each line of a stream that arrives in arbitrary pieces, so that lines of
// many ranks can share one terminal whole.
#ifndef MCCS_LAB_LINE_PREFIXER_H_
#define MCCS_LAB_LINE_PREFIXER_H_

#include <string>
#include <string_view>

namespace mccs::lab {

// A line longer than this is passed on in parts, each with the prefix.
inline constexpr size_t kMaxLineBytes = 64 * 1024;

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // What can be printed now: all lines that are complete.
  std::string Take(std::string_view piece);

  // The stream has ended: what is left, as a line.
  std::string Finish();

 private:
  std::string prefix_;
  std::string unfinished_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_LINE_PREFIXER_H_
