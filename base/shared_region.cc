#include "base/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

SharedRegion::SharedRegion(SharedRegion&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedRegion& SharedRegion::operator=(SharedRegion&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedRegion::~SharedRegion() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

absl::StatusOr<SharedRegion> SharedRegion::Create(const std::string& name, size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  UniqueFd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("memfd_create ", name));
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot size ", name, " to ", bytes, " bytes"));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot seal ", name));
  }
  return MapWhole(std::move(fd), bytes);
}

absl::StatusOr<SharedRegion> SharedRegion::Map(UniqueFd fd) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("rejected shared memory: it is not sealed against shrinking");
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return absl::ErrnoToStatus(errno, "fstat of shared memory");
  absl::StatusOr<SharedRegion> region = MapWhole(std::move(fd), static_cast<size_t>(info.st_size));
  if (region.ok()) region->fd_.Reset();
  return region;
}

absl::StatusOr<SharedRegion> SharedRegion::MapWhole(UniqueFd fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot map ", bytes, " bytes of shared memory"));
  }
  SharedRegion region;
  region.fd_ = std::move(fd);
  region.data_ = static_cast<std::byte*>(data);
  region.bytes_ = bytes;
  return region;
}

}  // namespace mccs
