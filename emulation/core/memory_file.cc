#include "emulation/core/memory_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "emulation/include/mccs_emulation_ipc.h"

namespace mccs::emulation {
namespace {

// Calls memfd_create. If no descriptor is left, raises the limit to the hard limit and retries:
// each allocation needs a descriptor, and a program may have more than 1,024 tensors.
int MakeMemfd(const std::string& name) {
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd >= 0 || errno != EMFILE) return fd;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return -1;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
  return memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

constexpr char kVirtualName[] = MCCS_EMULATION_MEMFD_PREFIX "%016" PRIx64 "-gpu%d";

}  // namespace

const int kMemoryFileSeals = F_SEAL_SHRINK | F_SEAL_GROW;

CUresult MakeMemoryFile(const std::string& name, size_t bytes, UniqueFd* file) {
  UniqueFd fd(MakeMemfd(name));
  if (!fd.valid()) {
    fprintf(stderr,
            "emulated CUDA: cannot create a memory file for device memory: %s; raise ulimit -n\n",
            strerror(errno));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, kMemoryFileSeals) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *file = std::move(fd);
  return CUDA_SUCCESS;
}

CUresult MakeVirtualMemoryName(int physical_gpu, std::string* name) {
  uint64_t secret = 0;
  if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret)) return CUDA_ERROR_OPERATING_SYSTEM;
  char text[64];
  snprintf(text, sizeof(text), kVirtualName, secret, physical_gpu);
  *name = text;
  return CUDA_SUCCESS;
}

bool MapMemoryFile(int file, uintptr_t address, size_t bytes) {
  void* const place = reinterpret_cast<void*>(address);
  if (mmap(place, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) return false;
  madvise(place, bytes, MADV_DONTFORK);
  madvise(place, bytes, MADV_HUGEPAGE);  // optional: fails without support for huge pages
  return true;
}

// Opens the file again: a lock belongs to an open file description, which copies and mappings
// share.
UniqueFd ExportMemoryFile(int file) {
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  UniqueFd exported(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (exported.valid() && flock(exported.get(), LOCK_SH | LOCK_NB) != 0) exported.Reset();
  return exported;
}

CUresult ImportMemoryFile(int exported, UniqueFd* file, size_t* bytes, int* physical_gpu) {
  char target[128] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(exported);
  if (readlink(path.c_str(), target, sizeof(target) - 1) < 0) return CUDA_ERROR_INVALID_VALUE;
  constexpr char kKernelPrefix[] = "/memfd:";
  const size_t prefix = sizeof(kKernelPrefix) - 1;
  uint64_t secret = 0;
  int gpu = 0;
  if (strncmp(target, kKernelPrefix, prefix) != 0 ||
      sscanf(target + prefix, MCCS_EMULATION_MEMFD_PREFIX "%16" SCNx64 "-gpu%d", &secret, &gpu) !=
          2) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  struct stat status;
  if (fstat(exported, &status) != 0 ||
      (fcntl(exported, F_GET_SEALS) & kMemoryFileSeals) != kMemoryFileSeals) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  UniqueFd own(fcntl(exported, F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return CUDA_ERROR_OPERATING_SYSTEM;
  *file = std::move(own);
  *bytes = static_cast<size_t>(status.st_size);
  *physical_gpu = gpu;
  return CUDA_SUCCESS;
}

}  // namespace mccs::emulation
