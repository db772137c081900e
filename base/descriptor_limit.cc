#include "base/descriptor_limit.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/unique_fd.h"

namespace mccs {
namespace {

constexpr rlim_t kWantedDescriptors = 65536;
constexpr rlim_t kFewDescriptors = 4096;
// Beyond it the table grows in use: containers may have a limit of 2^30, and an entry takes 8
// bytes.
constexpr rlim_t kMostReserved = 1 << 20;

// Enlarges the process's table of descriptors, which never shrinks. A process with several threads
// sleeps while it enlarges its table (expand_fdtable in Linux waits for a grace period of RCU), so
// that a tenant's connections could stop the engine for tens of milliseconds.
void ReserveTable(rlim_t descriptors) {
  const int last = static_cast<int>(std::min(descriptors, kMostReserved)) - 1;
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd copy(fcntl(null.get(), F_DUPFD_CLOEXEC, last));
}

}  // namespace

void RaiseDescriptorLimit(Log& log) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, kWantedDescriptors));
  setrlimit(RLIMIT_NOFILE, &limit);
  ReserveTable(limit.rlim_cur);
  if (limit.rlim_cur >= kFewDescriptors) return;
  log.Warning("only ", limit.rlim_cur, " file descriptors are allowed; ", kFewDescriptors,
              " or more are advised (LimitNOFILE= in the unit)");
}

}  // namespace mccs
