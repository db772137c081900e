#include "service/device/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace mccs {
namespace {

absl::Status MapError(size_t bytes, const char* what, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot map ", FormatBytes(bytes), " of ", what, ": ", std::strerror(error)));
}

}  // namespace

// If the kernel rejects the request, faults populate the pages later.
size_t PopulatePiece(std::span<std::byte> bytes) {
  const size_t now = std::min(bytes.size(), kPopulatePieceBytes);
  if (now > 0) madvise(bytes.data(), now, MADV_POPULATE_WRITE);
  return now;
}

// The file keeps its pages.
size_t ReleasePiece(std::span<std::byte> bytes) {
  const size_t now = std::min(bytes.size(), kReleasePieceBytes);
  if (now > 0) madvise(bytes.data(), now, MADV_DONTNEED);
  return now;
}

bool MappedMemory::PopulatePart() {
  const size_t all = std::min(bytes_, kPopulateBytes);
  populated_ += PopulatePiece({address_ + populated_, all - populated_});
  return populated_ == all;
}

uint64_t MappedMemory::ReleasePart(uint64_t offset, uint64_t bytes) {
  return ReleasePiece({address_ + offset, bytes});
}

absl::StatusOr<std::unique_ptr<MappedMemory>> MappedMemory::OfFile(int fd, size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return MapError(bytes, "a tenant's memory", errno);
  return std::unique_ptr<MappedMemory>(new MappedMemory(static_cast<std::byte*>(address), bytes));
}

absl::StatusOr<std::unique_ptr<MappedMemory>> MappedMemory::Anonymous(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return MapError(bytes, "staging memory", errno);
  return std::unique_ptr<MappedMemory>(new MappedMemory(static_cast<std::byte*>(address), bytes));
}

void MappedMemory::Discard(std::span<std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + bytes.size()) / page * page;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

MappedMemory::~MappedMemory() { munmap(address_, bytes_); }

}  // namespace mccs
