#include "service/frontend/process_cgroup.h"

#include <utf8.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace mccs {

// Lines are "0::/unified/path" and "4:cpu,cpuacct:/path/of/version/1"; a path may contain colons.
std::string CgroupIn(std::string_view proc_text) {
  std::string of_systemd;
  while (!proc_text.empty()) {
    const std::string_view line = proc_text.substr(0, proc_text.find('\n'));
    proc_text.remove_prefix(std::min(line.size() + 1, proc_text.size()));
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view hierarchy = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (hierarchy == "name=systemd") of_systemd = path;
    if (line.substr(0, first) == "0" && hierarchy.empty() && path != "/")
      return utf8::replace_invalid(path, U'?');
    // If version 1 is also in use, no process is below the root of the unified hierarchy.
    if (hierarchy.empty() && of_systemd.empty()) of_systemd = path;
  }
  return utf8::replace_invalid(of_systemd, U'?');
}

std::string CgroupOf(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/cgroup"));
  std::ostringstream text;
  text << file.rdbuf();
  return CgroupIn(text.str());
}

}  // namespace mccs
