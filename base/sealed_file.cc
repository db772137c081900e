#include "base/sealed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

absl::StatusOr<UniqueFd> MakeSealedFile(const std::string& name, std::span<const std::byte> bytes) {
  UniqueFd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("memfd_create ", name));
  for (std::span<const std::byte> left = bytes; !left.empty();) {
    const ssize_t written = write(fd.get(), left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return absl::ErrnoToStatus(errno,
                                 absl::StrCat("cannot write ", bytes.size(), " bytes to ", name));
    }
    left = left.subspan(static_cast<size_t>(written));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot seal ", name));
  return fd;
}

absl::StatusOr<SealedContents> SealedContents::Map(int fd, size_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return absl::InvalidArgumentError("its file is not sealed against changes");
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, "fstat of a sealed file");
  if (bytes == 0 || static_cast<size_t>(info.st_size) != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("its file has ", info.st_size, " bytes instead of ", bytes));
  }
  // Private: before Linux 6.7 a file sealed against writing could not be mapped shared.
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", bytes, " bytes"));
  return SealedContents(static_cast<const std::byte*>(data), bytes);
}

SealedContents::SealedContents(SealedContents&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SealedContents& SealedContents::operator=(SealedContents&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SealedContents::~SealedContents() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), bytes_);
}

}  // namespace mccs
