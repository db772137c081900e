// Replacements for two small parts of Abseil.
//
// Debian's static Abseil is compiled for programs. It links into a shared library except for two
// object files with thread-local variables, which the linker rejects. They are the sampling of
// cords for a profile that is never read, and system queries that only Abseil's locks use, which
// this library does not use. If a later Abseil needs more of them, the link fails.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <limits>

#include "absl/base/internal/sysinfo.h"
#include "absl/strings/internal/cordz_functions.h"

namespace absl {
ABSL_NAMESPACE_BEGIN

namespace cord_internal {

ABSL_CONST_INIT thread_local int64_t cordz_next_sample = std::numeric_limits<int64_t>::max();

bool cordz_should_profile_slow() {
  cordz_next_sample = std::numeric_limits<int64_t>::max();
  return false;  // sampling is disabled
}

int32_t get_cordz_mean_interval() { return std::numeric_limits<int32_t>::max(); }
void set_cordz_mean_interval(int32_t) {}
void cordz_set_next_sample_for_testing(int64_t) {}

}  // namespace cord_internal

namespace base_internal {

int NumCPUs() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }
double NominalCPUFrequency() { return 1.0; }
pid_t GetTID() { return static_cast<pid_t>(syscall(SYS_gettid)); }
pid_t GetCachedTID() { return GetTID(); }

}  // namespace base_internal

ABSL_NAMESPACE_END
}  // namespace absl
