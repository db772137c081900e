#include "service/device/mapped_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace mccs {
absl::Status ImportRejected(pid_t owner, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("import of a buffer of process ", owner, " rejected: ", why));
}

namespace {

constexpr uint64_t kBlockBytes = 512;  // of stx_blocks

// Asks the kernel for cached attributes only: a file server (FUSE, NFS) could block the engine
// without limit, and the tenant may run that server.
absl::StatusOr<struct statx> CachedStat(int fd, pid_t owner) {
  struct statx st {};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) == 0) return st;
  return ImportRejected(owner, absl::StrCat("statx failed: ", std::strerror(errno)));
}

}  // namespace

// All memfds of ordinary pages are on one internal device. Nobody can mount it or create named
// files on it.
absl::StatusOr<FileIdentity> IdentifyMemoryFile(int fd, pid_t owner) {
  const UniqueFd example(memfd_create("mccs-importer", MFD_CLOEXEC));
  if (!example.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memfd_create failed: ", std::strerror(errno)));
  }
  MCCS_ASSIGN_OR_RETURN(const struct statx ours, CachedStat(example.get(), owner));
  MCCS_ASSIGN_OR_RETURN(const struct statx st, CachedStat(fd, owner));
  const bool same_device =
      st.stx_dev_major == ours.stx_dev_major && st.stx_dev_minor == ours.stx_dev_minor;
  if (!S_ISREG(st.stx_mode) || !same_device) {
    return ImportRejected(owner,
                          "the descriptor is not a memory file (memfd_create without huge pages)");
  }
  return FileIdentity{.device = makedev(st.stx_dev_major, st.stx_dev_minor),
                      .inode = st.stx_ino,
                      .bytes = st.stx_size,
                      .allocated = st.stx_blocks * kBlockBytes};
}

bool IsMemoryFile(int fd) { return IdentifyMemoryFile(fd, 0).ok(); }

bool IsCharacterDevice(int fd, unsigned major) {
  const absl::StatusOr<struct statx> st = CachedStat(fd, 0);
  return st.ok() && S_ISCHR(st->stx_mode) && st->stx_rdev_major == major;
}

uint64_t CachedSize(int fd) {
  const absl::StatusOr<struct statx> st = CachedStat(fd, 0);
  return st.ok() ? st->stx_size : 0;
}

absl::StatusOr<uint64_t> CheckSealedFile(int fd, const BufferExport& offer) {
  MCCS_ASSIGN_OR_RETURN(const FileIdentity file, IdentifyMemoryFile(fd, offer.owner));
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return ImportRejected(offer.owner,
                          "the memory is not sealed against shrinking (F_SEAL_SHRINK)");
  }
  // The file's size also determines how long freeing it takes.
  if ((seals & F_SEAL_GROW) == 0) {
    return ImportRejected(offer.owner, "the memory is not sealed against growing (F_SEAL_GROW)");
  }
  if (file.bytes == 0 || file.bytes < offer.bytes) {
    return ImportRejected(offer.owner, absl::StrCat("the memory file has ", file.bytes, " bytes, ",
                                                    offer.bytes, " offered"));
  }
  if (file.bytes > offer.most_bytes) {
    return ImportRejected(offer.owner,
                          absl::StrCat("the memory file has ", file.bytes, " bytes, and had ",
                                       offer.most_bytes, " when it was offered"));
  }
  if (file.allocated < file.bytes) {
    return ImportRejected(
        offer.owner,
        absl::StrCat("the memory file has pages for ", file.allocated, " of its ", file.bytes,
                     " bytes; its process must allocate all of them (fallocate), so that they "
                     "count for it"));
  }
  return file.bytes;
}

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
  const size_t all = std::min<size_t>(bytes(), kPopulateBytes);
  populated_ += PopulatePiece({address() + populated_, all - populated_});
  return populated_ == all;
}

uint64_t MappedMemory::ReleasePart(uint64_t offset, uint64_t bytes) {
  return ReleasePiece({address() + offset, bytes});
}

absl::StatusOr<std::unique_ptr<MappedMemory>> MappedMemory::OfFile(int fd, size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return MapError(bytes, "a tenant's memory", errno);
  return std::unique_ptr<MappedMemory>(
      new MappedMemory(RegionKind::kTenant, static_cast<std::byte*>(address), bytes));
}

absl::StatusOr<std::unique_ptr<MappedMemory>> MappedMemory::OfSealedFile(
    int fd, const BufferExport& offer) {
  MCCS_ASSIGN_OR_RETURN(const uint64_t bytes, CheckSealedFile(fd, offer));
  return OfFile(fd, bytes);
}

absl::StatusOr<std::unique_ptr<MappedMemory>> MappedMemory::Anonymous(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return MapError(bytes, "staging memory", errno);
  return std::unique_ptr<MappedMemory>(
      new MappedMemory(RegionKind::kStaging, static_cast<std::byte*>(address), bytes));
}

void DiscardWholePages(std::span<std::byte> bytes, int advice) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + bytes.size()) / page * page;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, advice);
}

void MappedMemory::Discard(std::span<std::byte> bytes) { DiscardWholePages(bytes, MADV_DONTNEED); }

MappedMemory::~MappedMemory() { munmap(address(), bytes()); }

namespace {

bool IsWholePages(uint64_t bytes) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes % page == 0;
}

// Reserves addresses without access.
void* ReserveAddresses(void* place, size_t bytes) {
  return mmap(place, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (place == nullptr ? 0 : MAP_FIXED), -1,
              0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceRange>> MappedRange::Reserve(uint64_t bytes) {
  if (bytes == 0 || !IsWholePages(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot reserve ", bytes, " bytes: not a multiple of the page size"));
  }
  void* address = ReserveAddresses(nullptr, bytes);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot reserve ", FormatBytes(bytes),
                                                     " of addresses: ", std::strerror(errno)));
  }
  return std::unique_ptr<DeviceRange>(new MappedRange(static_cast<std::byte*>(address), bytes));
}

MappedRange::~MappedRange() { munmap(address(), bytes()); }

absl::Status MappedRange::Map(uint64_t offset, const BufferExport& offer) {
  if (!offer.fd.valid()) {
    return ImportRejected(offer.owner, "the message has no descriptor");
  }
  if (offer.bytes == 0 || !IsWholePages(offer.bytes) || !IsWholePages(offset)) {
    return ImportRejected(offer.owner, absl::StrCat(offer.bytes, " bytes at offset ", offset,
                                                    " of a range: not whole pages"));
  }
  MCCS_ASSIGN_OR_RETURN(const uint64_t file, CheckSealedFile(offer.fd.get(), offer));
  if (file > LargestFile()) largest_file_.store(file, std::memory_order_relaxed);
  std::byte* const place = address() + offset;
  if (mmap(place, offer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, offer.fd.get(), 0) ==
      MAP_FAILED) {
    const int error = errno;
    if (error == EACCES || error == EPERM || error == EBADF) {
      return ImportRejected(offer.owner,
                            absl::StrCat("the descriptor cannot be mapped for reading ",
                                         "and writing: ", std::strerror(error)));
    }
    return absl::ResourceExhaustedError(absl::StrCat("cannot map ", FormatBytes(offer.bytes),
                                                     " of a range: ", std::strerror(error)));
  }
  to_populate_ = {place, std::min<size_t>(offer.bytes, kPopulateBytes - populated_)};
  populated_ += to_populate_.size();
  return absl::OkStatus();
}

bool MappedRange::PopulatePart() {
  to_populate_ = to_populate_.subspan(PopulatePiece(to_populate_));
  return to_populate_.empty();
}

uint64_t MappedRange::ReleasePart(uint64_t offset, uint64_t bytes) {
  return ReleasePiece({address() + offset, bytes});
}

// If the kernel rejects the request, the memory stays mapped, unused, until the range ends.
void MappedRange::Unmap(uint64_t offset, uint64_t bytes) {
  ReserveAddresses(address() + offset, bytes);
}

}  // namespace mccs
