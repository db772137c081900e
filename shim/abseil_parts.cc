// Two small parts of Abseil, in place of its own.
//
// Debian's static Abseil is compiled for programs. It can be linked into a shared library but for
// two object files with thread-local variables of their own (the linker refuses them): the sampling
// of cords for a profile that nobody here reads, and questions about the system that only its locks
// ask, which we do not use. A later Abseil that asks for more fails to link, not to work.
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
  return false;  // Nothing is ever sampled.
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
