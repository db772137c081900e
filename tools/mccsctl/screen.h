// The terminal's other screen, for output that is refreshed in place: what was there before comes
// back when this goes. Where standard output is no terminal, pictures come one after the other.
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

  // In the place of the last picture; lines that do not fit are left out. False: nobody reads any
  // more.
  bool Show(const std::string& picture);

 private:
  const bool terminal_;
  bool first_ = true;
};

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_SCREEN_H_
