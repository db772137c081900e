#include "service/process_limits.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/clock.h"
#include "base/units.h"

namespace mccs {
namespace {

constexpr rlim_t kWantedDescriptors = 65536;
constexpr rlim_t kFewDescriptors = 4096;
constexpr unsigned long kTimerSlackNs = 1 * kNsPerUs;

}  // namespace

void RaiseProcessLimits(Log& log) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, kWantedDescriptors));
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < kFewDescriptors) {
      log.Warning("only ", limit.rlim_cur, " file descriptors are allowed; ", kFewDescriptors,
                  " or more are advised (LimitNOFILE= in the unit)");
    }
  }
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_max != RLIM_INFINITY) {
    log.Info("locked memory is limited to ", FormatBytes(limit.rlim_max),
             ": sufficient for TCP lanes; RDMA lanes need LimitMEMLOCK=infinity");
  }
}

void SetTimerSlack() { prctl(PR_SET_TIMERSLACK, kTimerSlackNs); }

}  // namespace mccs
