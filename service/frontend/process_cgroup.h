// In which control group a process is.
#ifndef MCCS_SERVICE_FRONTEND_PROCESS_CGROUP_H_
#define MCCS_SERVICE_FRONTEND_PROCESS_CGROUP_H_

#include <sys/types.h>

#include <string>
#include <string_view>

namespace mccs {

// Its path in the unified hierarchy, or where there is none in systemd's of version 1, as the text
// of /proc/PID/cgroup says, made UTF-8: whoever may make groups chooses any bytes for their names.
// Empty: it names neither.
std::string CgroupIn(std::string_view proc_text);

// Reads that file: a look into the kernel's memory, which waits for nothing. Empty: it cannot be
// read.
std::string CgroupOf(pid_t process);

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_PROCESS_CGROUP_H_
