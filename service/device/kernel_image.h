// The image of the kernels that run plans in tenants' processes: the daemon gives it to each
// process, so that the kernels' code is upgraded with the daemon.
#ifndef MCCS_SERVICE_DEVICE_KERNEL_IMAGE_H_
#define MCCS_SERVICE_DEVICE_KERNEL_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/sealed_file.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace mccs {

struct KernelImage {
  UniqueFd file;              // sealed (base/sealed_file.h): all processes share it
  uint64_t bytes = 0;         // 0: no image
  std::string architectures;  // for error messages: "sm_80, sm_90 …"
};

inline absl::StatusOr<KernelImage> MakeKernelImage(std::span<const std::byte> bytes,
                                                   std::string architectures) {
  MCCS_ASSIGN_OR_RETURN(UniqueFd file, MakeSealedFile("mccs-kernel-image", bytes));
  return KernelImage{std::move(file), bytes.size(), std::move(architectures)};
}

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_KERNEL_IMAGE_H_
