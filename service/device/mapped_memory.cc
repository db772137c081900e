#include "service/device/mapped_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace mccs {
namespace {

absl::Status CannotMap(size_t bytes, const char* what, int error) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot map ", FormatBytes(bytes), " of ", what,
                                                   ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedMemory>> MappedMemory::OfFile(int fd, size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return CannotMap(bytes, "a tenant's memory", errno);
  return std::unique_ptr<MappedMemory>(
      new MappedMemory(static_cast<std::byte*>(address), bytes));
}

absl::StatusOr<std::unique_ptr<MappedMemory>> MappedMemory::Anonymous(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return CannotMap(bytes, "staging memory", errno);
  auto memory = std::unique_ptr<MappedMemory>(
      new MappedMemory(static_cast<std::byte*>(address), bytes));
  madvise(address, bytes, MADV_HUGEPAGE);  // advice: staging works without
  if (madvise(address, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == ENOMEM) return CannotMap(bytes, "staging memory", errno);
    std::memset(address, 0, bytes);  // kernels before 5.14
  }
  return memory;
}

MappedMemory::~MappedMemory() { munmap(address_, bytes_); }

}  // namespace mccs
