#include "lab/host_identity.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace mccs::lab {
namespace {

constexpr int kIdentityNamespaces = CLONE_NEWUTS | CLONE_NEWNS;

absl::Status WriteFile(const char* path, std::string_view text) {
  UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
  if (file.valid() &&
      write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
    return absl::OkStatus();
  return Unsupported(absl::StrCat("cannot write ", path));
}

// Maps this process's user and group to themselves.
absl::Status EnterUserNamespace() {
  const std::string uid_map = absl::StrCat(geteuid(), " ", geteuid(), " 1");
  const std::string gid_map = absl::StrCat(getegid(), " ", getegid(), " 1");
  if (unshare(CLONE_NEWUSER | kIdentityNamespaces) != 0)
    return Unsupported("namespaces need root (CAP_SYS_ADMIN) or user namespaces");
  MCCS_RETURN_IF_ERROR(WriteFile("/proc/self/uid_map", uid_map));
  MCCS_RETURN_IF_ERROR(WriteFile("/proc/self/setgroups", "deny"));
  return WriteFile("/proc/self/gid_map", gid_map);
}

}  // namespace

absl::Status Unsupported(const std::string& what) {
  return absl::UnimplementedError(absl::ErrnoToStatus(errno, what).message());
}

std::string PlainHostsFile(const std::vector<LabHost>& hosts, const std::string& machines) {
  std::string lines;
  for (const LabHost& host : hosts) absl::StrAppend(&lines, host.address, " ", host.name, "\n");
  absl::StrAppend(&lines, machines, machines.ends_with('\n') ? "" : "\n");
  return lines;
}

absl::Status SetIdentity(const HostIdentity& identity) {
  if (sethostname(identity.name.data(), identity.name.size()) != 0)
    return Unsupported(absl::StrCat("cannot set the host name ", identity.name));
  if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    return Unsupported("cannot make mounts private to the namespace");
  if (!identity.hosts_file.empty() &&
      mount(identity.hosts_file.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0) {
    return Unsupported(absl::StrCat("cannot mount ", identity.hosts_file, " over /etc/hosts"));
  }
  return absl::OkStatus();
}

absl::Status BecomeHost(const HostIdentity& identity) {
  if (unshare(kIdentityNamespaces) != 0) MCCS_RETURN_IF_ERROR(EnterUserNamespace());
  return SetIdentity(identity);
}

absl::Status CheckBecomeHost(const HostIdentity& identity) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "cannot fork");
  if (child == 0) {
    const std::string error(BecomeHost(identity).message());
    (void)!write(writer.get(), error.data(), error.size());
    _exit(0);
  }
  writer.Reset();
  char error[512];
  ssize_t got;
  while ((got = read(reader.get(), error, sizeof(error))) < 0 && errno == EINTR) {
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return got <= 0 ? absl::OkStatus() : absl::UnimplementedError({error, static_cast<size_t>(got)});
}

}  // namespace mccs::lab
