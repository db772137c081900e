// The control group of a process.
#ifndef MCCS_SERVICE_FRONTEND_PROCESS_CGROUP_H_
#define MCCS_SERVICE_FRONTEND_PROCESS_CGROUP_H_

#include <sys/types.h>

#include <string>
#include <string_view>

namespace mccs {

// Its path in the unified hierarchy, or else in systemd's hierarchy of version 1, from the text of
// /proc/PID/cgroup, converted to UTF-8: the creator of a group may use any bytes in its name.
// Empty: neither is present.
std::string CgroupIn(std::string_view proc_text);

// Reads that file; procfs never blocks. Empty: the file is not readable.
std::string CgroupOf(pid_t process);

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_PROCESS_CGROUP_H_
