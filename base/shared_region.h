// Memory that two processes share: a memfd, mapped. The maker seals its size, so that no holder of
// the descriptor can pull pages from under the other (SIGBUS).
#ifndef MCCS_BASE_SHARED_REGION_H_
#define MCCS_BASE_SHARED_REGION_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs {

// LIFETIME: unmaps and closes with the object. Moves, does not copy.
class SharedRegion {
 public:
  SharedRegion() = default;
  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&& other) noexcept;
  ~SharedRegion();

  // A new region of zeros, rounded up to whole pages, size sealed. `name` shows in /proc/PID/maps.
  static absl::StatusOr<SharedRegion> Create(const std::string& name, size_t bytes);

  // Maps a region that another process made, all of it, read and write. Refuses one that could
  // still shrink (kInvalidArgument). The descriptor is closed: the mapping needs none.
  static absl::StatusOr<SharedRegion> Map(UniqueFd fd);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // To be given to others; of the maker's region alone.
  int fd() const { return fd_.get(); }
  // The same, for who gives it away once: the mapping needs none.
  UniqueFd TakeFd() { return std::move(fd_); }

 private:
  static absl::StatusOr<SharedRegion> MapWhole(UniqueFd fd, size_t bytes);

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_BASE_SHARED_REGION_H_
