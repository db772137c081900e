// Tenants' memory on GPUs, which only kernels of the tenants reach: the daemon has no CUDA context,
// and cannot check what a handle refers to. A process that opens the handle of another rank checks
// its size. NICs reach it if the tenant gives its dma-buf. Host memory is mapped, for sends and
// receives.
#ifndef MCCS_SERVICE_DEVICE_GPU_GPU_IMPORTER_H_
#define MCCS_SERVICE_DEVICE_GPU_GPU_IMPORTER_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/device/memory_mapper.h"

namespace mccs {

// Whether the descriptor is a file of NVIDIA's driver, as those of virtual memory are. Closing it
// does not call a process.
bool IsGpuFile(int fd);
// Whether the descriptor is a dma-buf. No process is asked, as above. Needs /proc, and Linux 5.3.
bool IsDmaBuf(int fd);
// The same for its link in /proc/self/fd. The kernel prints that in constant time, but programs
// choose the names of their own files, at the root of a mount namespace of theirs, too.
bool IsNameOfDmaBuf(std::string_view link);
// The same for the text of its file in /proc/self/fdinfo, which no program chooses. The kernel
// prints all of it at each read: of an inotify descriptor with many watches, for half a second. So
// the link is checked first: such descriptors, and all without a file system, have other ones.
bool DescribesDmaBuf(std::string_view fdinfo);

// Errors: kInvalidArgument: invalid offer; kUnimplemented: a range of several allocations.
class GpuImporter final : public MemoryImporter {
 public:
  // Regions of memory on GPUs have no address.
  absl::StatusOr<std::unique_ptr<Region>> Import(const BufferExport& offer) override;
  absl::StatusOr<std::unique_ptr<DeviceRange>> Reserve(uint64_t bytes) override;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_GPU_IMPORTER_H_
