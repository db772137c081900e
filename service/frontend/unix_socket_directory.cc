#include "service/frontend/unix_socket_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/frontend/unix_listener.h"

namespace mccs {

absl::Status UnixSocketDirectory::Prepare(const std::string& directory) {
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot create directory ", directory,
                            "; check `socket_dir` in mccsd's configuration, and its parents"));
  }
  struct stat info;
  if (lstat(directory.c_str(), &info) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read directory ", directory));
  if (!S_ISDIR(info.st_mode)) {
    return absl::AlreadyExistsError(absl::StrCat(
        directory, " is in use and not a directory; choose another path, or remove it"));
  }
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("others could change directory ", directory, ": it must belong to user ",
                     geteuid(), " and be writable by no other; run `chown ", geteuid(), " ",
                     directory, "; chmod go-w ", directory, "`"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TenantListener>> UnixSocketDirectory::Open(
    const std::string& tenant, const DeclaredSocket& socket) {
  std::error_code ignored;  // Prepare reports a directory that is missing
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  MCCS_RETURN_IF_ERROR(Prepare(path_));
  for (size_t slash = socket.path.find('/'); slash != std::string::npos;
       slash = socket.path.find('/', slash + 1)) {
    MCCS_RETURN_IF_ERROR(Prepare(absl::StrCat(path_, "/", socket.path.substr(0, slash))));
  }
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<UnixListener> listener,
                        UnixListener::Open({.path = absl::StrCat(path_, "/", socket.path),
                                            .tenant = tenant,
                                            .mode = socket.mode,
                                            .uid = socket.uid,
                                            .gid = socket.gid,
                                            .dma_bufs = dma_bufs_,
                                            .counted_as = counted_as_,
                                            .foreign = foreign_},
                                           reactor_));
  return listener;
}

}  // namespace mccs
