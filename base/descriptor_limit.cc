#include "base/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace mccs {
namespace {

constexpr rlim_t kWantedDescriptors = 65536;
constexpr rlim_t kFewDescriptors = 4096;

}  // namespace

void RaiseDescriptorLimit(Log& log) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, kWantedDescriptors));
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= kFewDescriptors) return;
  log.Warning("only ", limit.rlim_cur, " file descriptors are allowed; ", kFewDescriptors,
              " or more are advised (LimitNOFILE= in the unit)");
}

}  // namespace mccs
