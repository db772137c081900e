// Checks of a file before the daemon maps it for a tenant: it must be ordinary memory
// (memfd_create) that cannot shrink. All checks use the descriptor that is then mapped.
#ifndef MCCS_SERVICE_DEVICE_MEMORY_FILE_H_
#define MCCS_SERVICE_DEVICE_MEMORY_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "service/device/device.h"

namespace mccs {

// kInvalidArgument: "import of a buffer of process 4711 refused: WHY".
absl::Status ImportRefused(pid_t owner, const std::string& why);

struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t bytes = 0;
};
absl::StatusOr<FileIdentity> IdentifyMemoryFile(int fd, pid_t owner);
// Whether it is memory of that kind, of any size and seals. Closing it does not call a file server,
// but the last close takes as long as the file is large (MemoryMapper::Close).
bool IsMemoryFile(int fd);

// Returns the file's size. Rejects a file that can shrink, is empty, or is shorter than offered.
absl::StatusOr<uint64_t> CheckSealedFile(int fd, const BufferExport& offer);

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEMORY_FILE_H_
