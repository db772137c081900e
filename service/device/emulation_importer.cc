#include "service/device/emulation_importer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "emulation/include/mccs_emulation_ipc.h"
#include "service/device/mapped_memory.h"

namespace mccs {
namespace {

absl::Status Rejected(pid_t owner, const std::string& why) { return ImportRejected(owner, why); }

absl::StatusOr<MccsEmulationIpcHandle> ParseHandle(const BufferExport& offer) {
  MccsEmulationIpcHandle handle;
  static_assert(sizeof(handle) == wire::kIpcHandleBytes);
  std::memcpy(&handle, offer.handle.data(), sizeof(handle));
  if (handle.magic != MCCS_EMULATION_IPC_MAGIC) {
    return Rejected(
        offer.owner,
        "the handle was not made by the CUDA emulation; this daemon works on host memory, "
        "so run the program with build/lib/emulation first in LD_LIBRARY_PATH");
  }
  if (handle.version != MCCS_EMULATION_IPC_VERSION) {
    return Rejected(offer.owner, absl::StrCat("the handle has version ", handle.version,
                                              ", this daemon supports ", MCCS_EMULATION_IPC_VERSION,
                                              "; use emulation and daemon of one build"));
  }
  if (handle.pid != offer.owner) {
    return Rejected(offer.owner,
                    absl::StrCat("the handle names process ", handle.pid,
                                 "; a process may register only memory that it allocated itself"));
  }
  if (handle.fd < 0) {
    return Rejected(offer.owner, absl::StrCat("the handle has invalid descriptor ", handle.fd));
  }
  return handle;
}

// Refers to the descriptor's file by O_PATH, without opening it: opening a FIFO would block, and
// opening a device may have side effects.
absl::StatusOr<UniqueFd> OpenPath(const MccsEmulationIpcHandle& handle) {
  const std::string path = absl::StrCat("/proc/", handle.pid, "/fd/", handle.fd);
  UniqueFd held(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (held.valid()) return held;
  const int error = errno;
  const std::string what = absl::StrCat("cannot open ", path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(absl::StrCat(what, "; the buffer was freed"));
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(
        absl::StrCat(what, "; run mccsd as root or as the tenant's user"));
  }
  return absl::ResourceExhaustedError(what);
}

// The file's memfd_create name, as the kernel shows it: "/memfd:NAME (deleted)".
absl::StatusOr<std::string> KernelName(int fd, pid_t owner) {
  char target[256];
  const ssize_t length =
      readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), target, sizeof(target));
  if (length < 0) return Rejected(owner, absl::StrCat("readlink failed: ", std::strerror(errno)));
  return std::string(target, static_cast<size_t>(length));
}

absl::Status CheckIdentity(const MccsEmulationIpcHandle& handle, int fd, pid_t owner) {
  MCCS_ASSIGN_OR_RETURN(const FileIdentity file, IdentifyMemoryFile(fd, owner));
  if (file.device != handle.device || file.inode != handle.inode) {
    return Rejected(owner, absl::StrCat("descriptor ", handle.fd,
                                        " now refers to another file; the buffer was freed"));
  }
  if (file.bytes != handle.bytes) {
    return Rejected(owner, absl::StrCat("the memory file has ", file.bytes,
                                        " bytes, the handle has ", handle.bytes));
  }
  MCCS_ASSIGN_OR_RETURN(const std::string name, KernelName(fd, owner));
  const std::string expected =
      absl::StrFormat("/memfd:%s%016x (deleted)", MCCS_EMULATION_MEMFD_PREFIX, handle.secret);
  if (name != expected) {
    return Rejected(owner,
                    "the descriptor is not an allocation of the CUDA emulation, or the handle's "
                    "secret is wrong");
  }
  return absl::OkStatus();
}

// Opens the file of `held` for mapping. The magic link refers to that very file, so it cannot be
// replaced in between.
absl::StatusOr<UniqueFd> OpenForMapping(int held, pid_t owner) {
  UniqueFd fd(open(absl::StrCat("/proc/self/fd/", held).c_str(), O_RDWR | O_CLOEXEC));
  if (fd.valid()) return fd;
  return absl::PermissionDeniedError(
      absl::StrCat("cannot open a buffer of process ", owner,
                   " for reading and writing: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Region>> EmulationImporter::Import(const BufferExport& offer) {
  if (offer.kind == wire::ExportKind::kFileDescriptor) {
    if (!offer.fd.valid()) return Rejected(offer.owner, "the message has no descriptor");
    return MappedMemory::OfSealedFile(offer.fd.get(), offer);
  }
  if (offer.kind != wire::ExportKind::kCudaIpc) {
    return Rejected(offer.owner,
                    absl::StrCat("unknown export kind ", static_cast<uint32_t>(offer.kind)));
  }
  MCCS_ASSIGN_OR_RETURN(const MccsEmulationIpcHandle handle, ParseHandle(offer));
  MCCS_ASSIGN_OR_RETURN(const UniqueFd held, OpenPath(handle));
  MCCS_RETURN_IF_ERROR(CheckIdentity(handle, held.get(), offer.owner));
  MCCS_ASSIGN_OR_RETURN(const UniqueFd fd, OpenForMapping(held.get(), offer.owner));
  return MappedMemory::OfSealedFile(fd.get(), offer);
}

absl::StatusOr<std::unique_ptr<DeviceRange>> EmulationImporter::Reserve(uint64_t bytes) {
  return MappedRange::Reserve(bytes);
}

}  // namespace mccs
