// Constant bytes that a process gives to others: a memfd whose contents and size no process can
// change any more, not even its creator.
#ifndef MCCS_BASE_SEALED_FILE_H_
#define MCCS_BASE_SEALED_FILE_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs {

// A new file with a copy of `bytes`. `name` appears in /proc/PID/maps.
absl::StatusOr<UniqueFd> MakeSealedFile(const std::string& name, std::span<const std::byte> bytes);

// The contents of a sealed file, read-only.
//
// LIFETIME: the destructor unmaps. The descriptor may be closed before.
class SealedContents {
 public:
  // kInvalidArgument: the file is not sealed, or does not have `bytes` bytes.
  static absl::StatusOr<SealedContents> Map(int fd, size_t bytes);

  SealedContents(SealedContents&& other) noexcept;
  SealedContents& operator=(SealedContents&& other) noexcept;
  ~SealedContents();

  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  SealedContents(const std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}

  const std::byte* data_;
  size_t bytes_;
};

}  // namespace mccs

#endif  // MCCS_BASE_SEALED_FILE_H_
