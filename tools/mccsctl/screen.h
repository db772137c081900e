// The terminal's alternate screen, for output that is refreshed in place. The destructor restores
// the previous contents. If standard output is not a terminal, pictures are printed one after the
// other.
//
// THREAD: one.
#ifndef MCCS_TOOLS_MCCSCTL_SCREEN_H_
#define MCCS_TOOLS_MCCSCTL_SCREEN_H_

#include <string>

namespace mccs {

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Replaces the last picture; omits lines that do not fit. False: standard output is closed.
  bool Show(const std::string& picture);

 private:
  const bool terminal_;
  bool first_ = true;
};

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_SCREEN_H_
