#include "shim/cuda/stream_key.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace mccs::shim {
namespace {

constexpr uintptr_t kPerThreadStream = 0x2;  // CU_STREAM_PER_THREAD
constexpr uintptr_t kLegacyStream = 0x1;     // CU_STREAM_LEGACY, also NULL
constexpr uint64_t kThreadBit = uint64_t{1} << 63;

}  // namespace

uint64_t StreamKey(const DriverApi& driver, CUstream stream) {
  unsigned long long id;
  if (driver.StreamGetId != nullptr && driver.StreamGetId(stream, &id) == CUDA_SUCCESS) return id;
  const auto handle = reinterpret_cast<uintptr_t>(stream);
  if (handle == kPerThreadStream) {
    static thread_local const uint64_t thread = static_cast<uint64_t>(syscall(SYS_gettid));
    return kThreadBit | thread;
  }
  return handle == 0 ? kLegacyStream : handle;
}

}  // namespace mccs::shim
