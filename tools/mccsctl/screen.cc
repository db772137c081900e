#include "tools/mccsctl/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "absl/strings/str_split.h"

namespace mccs {
namespace {

// xterm control sequences: alternate screen, hidden cursor, no line wrapping.
constexpr char kEnter[] = "\033[?1049h\033[?25l\033[?7l";
constexpr char kLeave[] = "\033[?7h\033[?25h\033[?1049l";
constexpr char kHome[] = "\033[H";
constexpr char kClearLine[] = "\033[K";
constexpr char kClearBelow[] = "\033[J";
constexpr size_t kLinesOfUnknown = 24;

bool Write(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0;
}

size_t Lines() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return kLinesOfUnknown;
  return size.ws_row;
}

}  // namespace

Screen::Screen() : terminal_(isatty(STDOUT_FILENO) == 1) {
  if (terminal_) Write(kEnter);
}

Screen::~Screen() {
  if (terminal_) Write(kLeave);
}

bool Screen::Show(const std::string& picture) {
  if (!terminal_) {
    const bool first = std::exchange(first_, false);
    return Write(first ? picture : "\n" + picture);
  }
  std::vector<std::string> lines = absl::StrSplit(picture, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  const size_t room = Lines();
  if (lines.size() > room) lines.resize(room);
  std::string text = kHome;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += lines[i] + kClearLine;
    // No newline after the last line: the terminal would scroll.
    if (i + 1 < lines.size()) text += "\r\n";
  }
  return Write(text + kClearBelow);
}

}  // namespace mccs
