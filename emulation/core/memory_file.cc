#include "emulation/core/memory_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/unique_fd.h"
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

// In pieces, because a signal undoes the call that it interrupts.
bool AllocatePages(int file, size_t bytes) {
  constexpr size_t kPiece = size_t{16} << 20;
  for (size_t at = 0; at < bytes;) {
    const size_t piece = std::min(kPiece, bytes - at);
    if (fallocate(file, 0, static_cast<off_t>(at), static_cast<off_t>(piece)) == 0) {
      at += piece;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Opens the file again: a lock belongs to an open file description, which copies and mappings
// share.
UniqueFd ExportMemoryFile(int file) {
  struct stat status;
  if (fstat(file, &status) != 0 || !AllocatePages(file, static_cast<size_t>(status.st_size))) {
    return {};
  }
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

// ---- Sealed memory -----------------------------------------------------------------------------

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

std::string MemfdName(uint64_t secret) {
  char name[64];
  snprintf(name, sizeof(name), MCCS_EMULATION_MEMFD_PREFIX "%016" PRIx64, secret);
  return name;
}

// Excludes the mapping from forked children: they cannot use it, and would keep the memory
// allocated.
void* Prepared(void* address, size_t bytes) {
  madvise(address, bytes, MADV_DONTFORK);
  return address;
}

// Maps the whole file. Large mappings are aligned for huge pages.
void* MapShared(int fd, size_t bytes) {
  if (bytes < kHugePage) {
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return address == MAP_FAILED ? nullptr : Prepared(address, bytes);
  }
  void* reserved = mmap(nullptr, bytes + kHugePage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t aligned = (start + kHugePage - 1) / kHugePage * kHugePage;
  void* address = mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED, fd, 0);
  if (address == MAP_FAILED) {
    munmap(reserved, bytes + kHugePage);
    return nullptr;
  }
  if (aligned > start) munmap(reserved, aligned - start);
  const uintptr_t end = start + bytes + kHugePage;
  if (end > aligned + bytes) {
    munmap(reinterpret_cast<void*>(aligned + bytes), end - aligned - bytes);
  }
  madvise(address, bytes, MADV_HUGEPAGE);  // optional: fails without support for huge pages
  return Prepared(address, bytes);
}

CUresult Reject(const MccsEmulationIpcHandle& handle, const char* why) {
  fprintf(stderr, "emulated CUDA: cannot import memory of process %d (descriptor %d): %s\n",
          handle.pid, handle.fd, why);
  return CUDA_ERROR_MAP_FAILED;
}

bool NameMatches(const std::string& path, uint64_t secret) {
  char target[128] = {};
  if (readlink(path.c_str(), target, sizeof(target) - 1) < 0) return false;
  return std::string(target).rfind("/memfd:" + MemfdName(secret), 0) == 0;
}

}  // namespace

size_t RoundUpToPages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

CUresult MakeSealedMemory(size_t bytes, int physical_gpu, SealedMemory* memory) {
  uint64_t secret = 0;
  if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret)) return CUDA_ERROR_OPERATING_SYSTEM;
  UniqueFd fd;
  const CUresult made = MakeMemoryFile(MemfdName(secret), bytes, &fd);
  if (made != CUDA_SUCCESS) return made;
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  memory->address = MapShared(fd.get(), bytes);
  if (memory->address == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  MccsEmulationIpcHandle& handle = memory->handle;
  handle = {};
  handle.magic = MCCS_EMULATION_IPC_MAGIC;
  handle.version = MCCS_EMULATION_IPC_VERSION;
  handle.pid = getpid();
  handle.fd = fd.get();
  handle.device = status.st_dev;
  handle.inode = status.st_ino;
  handle.bytes = bytes;
  handle.secret = secret;
  handle.gpu = static_cast<uint32_t>(physical_gpu);
  memory->fd = fd.Release();
  return CUDA_SUCCESS;
}

CUresult OpenSealedMemory(const MccsEmulationIpcHandle& handle, SealedMemory* memory) {
  if (handle.magic != MCCS_EMULATION_IPC_MAGIC || handle.version != MCCS_EMULATION_IPC_VERSION) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::string path =
      "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  // Check the name first: opening an unrelated descriptor (a pipe, a terminal) could block or do
  // harm.
  if (!NameMatches(path, handle.secret)) {
    return Reject(handle, "the process has ended, denies access, or has freed the memory");
  }
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return Reject(handle, strerror(errno));
  if (status.st_dev != handle.device || status.st_ino != handle.inode ||
      static_cast<uint64_t>(status.st_size) != handle.bytes || handle.bytes == 0) {
    return Reject(handle, "the descriptor refers to other memory");
  }
  if ((fcntl(fd.get(), F_GET_SEALS) & kMemoryFileSeals) != kMemoryFileSeals) {
    return Reject(handle, "the memory file is not sealed");
  }
  memory->address = MapShared(fd.get(), handle.bytes);
  if (memory->address == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  memory->handle = handle;
  memory->fd = -1;  // the mapping keeps the memory
  return CUDA_SUCCESS;
}

void CloseSealedMemory(void* address, size_t bytes, int fd) {
  munmap(address, bytes);
  if (fd >= 0) close(fd);
}

void* MapAnonymous(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

}  // namespace mccs::emulation
