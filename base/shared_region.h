// Memory shared by two processes: a mapped memfd. The creator seals its size, so that no holder of
// the descriptor can shrink it and cause SIGBUS in the other process.
#ifndef MCCS_BASE_SHARED_REGION_H_
#define MCCS_BASE_SHARED_REGION_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs {

// LIFETIME: the destructor unmaps and closes. Movable, not copyable.
class SharedRegion {
 public:
  SharedRegion() = default;
  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&& other) noexcept;
  ~SharedRegion();

  // A new zeroed region, rounded up to whole pages, with sealed size. `name` appears in
  // /proc/PID/maps.
  static absl::StatusOr<SharedRegion> Create(const std::string& name, size_t bytes);

  // Maps the whole region of another process, read and write. kInvalidArgument: it is not sealed
  // against shrinking. Closes the descriptor, which the mapping does not need.
  static absl::StatusOr<SharedRegion> Map(UniqueFd fd);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // For sending to other processes; only for a region from Create.
  int fd() const { return fd_.get(); }
  // The same; the caller owns it. The mapping does not need it.
  UniqueFd TakeFd() { return std::move(fd_); }

 private:
  static absl::StatusOr<SharedRegion> MapWhole(UniqueFd fd, size_t bytes);

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_BASE_SHARED_REGION_H_
