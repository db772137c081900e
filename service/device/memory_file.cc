#include "service/device/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace mccs {

absl::Status ImportRefused(pid_t owner, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("import of a buffer of process ", owner, " refused: ", why));
}

namespace {

// Asks the kernel for cached attributes only: a file server (FUSE, NFS) could block the engine
// without limit, and the tenant may run that server.
absl::StatusOr<struct statx> CachedStat(int fd, pid_t owner) {
  struct statx st {};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) == 0) return st;
  return ImportRefused(owner, absl::StrCat("statx failed: ", std::strerror(errno)));
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
    return ImportRefused(owner,
                         "the descriptor is not a memory file (memfd_create without huge pages)");
  }
  return FileIdentity{.device = makedev(st.stx_dev_major, st.stx_dev_minor),
                      .inode = st.stx_ino,
                      .bytes = st.stx_size};
}

bool IsMemoryFile(int fd) { return IdentifyMemoryFile(fd, 0).ok(); }

absl::StatusOr<uint64_t> CheckSealedFile(int fd, const BufferExport& offer) {
  MCCS_ASSIGN_OR_RETURN(const FileIdentity file, IdentifyMemoryFile(fd, offer.owner));
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return ImportRefused(offer.owner, "the memory is not sealed against shrinking (F_SEAL_SHRINK)");
  }
  // The file's size also determines how long freeing it takes.
  if ((seals & F_SEAL_GROW) == 0) {
    return ImportRefused(offer.owner, "the memory is not sealed against growing (F_SEAL_GROW)");
  }
  if (file.bytes == 0 || file.bytes < offer.bytes) {
    return ImportRefused(offer.owner, absl::StrCat("the memory file has ", file.bytes, " bytes, ",
                                                   offer.bytes, " offered"));
  }
  return file.bytes;
}

}  // namespace mccs
