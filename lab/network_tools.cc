#include "lab/network_tools.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "lab/child_processes.h"
#include "lab/spawn.h"

namespace mccs::lab {
namespace {

// Limit of a tool's output; enough for the error of one line.
constexpr size_t kMaxToolOutputBytes = 16 << 10;

absl::StatusOr<std::string> FindTool(const std::string& name, const std::string& directories) {
  absl::StatusOr<std::string> found = FindProgram(name, directories);
  if (found.ok()) return found;
  return absl::UnimplementedError(absl::StrCat("a lab with a network requires `", name,
                                               "` of iproute2 (scripts/setup installs ",
                                               "it): ", found.status().message()));
}

absl::StatusOr<UniqueFd> MemoryFile(const std::string& content) {
  UniqueFd file(memfd_create("batch", MFD_CLOEXEC));
  if (!file.valid() ||
      write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()) ||
      lseek(file.get(), 0, SEEK_SET) != 0) {
    return absl::ErrnoToStatus(errno, "cannot create a memory file for a tool's input");
  }
  return file;
}

// The line that "Command failed -:3" refers to.
std::string FailedLine(const std::string& lines, const std::string& output_text) {
  constexpr char kMark[] = "Command failed -:";
  const size_t at = output_text.find(kMark);
  size_t number = 0;
  if (at == std::string::npos) return "";
  const std::string behind = output_text.substr(at + sizeof(kMark) - 1);
  const std::vector<std::string> all = absl::StrSplit(lines, '\n');
  if (!absl::SimpleAtoi(behind.substr(0, behind.find_first_not_of("0123456789")), &number) ||
      number == 0 || number > all.size()) {
    return "";
  }
  return all[number - 1];
}

}  // namespace

absl::StatusOr<NetworkTools> FindNetworkTools(const std::string& directories) {
  NetworkTools tools;
  MCCS_ASSIGN_OR_RETURN(tools.ip, FindTool("ip", directories));
  MCCS_ASSIGN_OR_RETURN(tools.tc, FindTool("tc", directories));
  return tools;
}

absl::Status RunBatch(const std::string& tool, const std::string& lines, pid_t node) {
  if (lines.empty()) return absl::OkStatus();
  MCCS_ASSIGN_OR_RETURN(UniqueFd input, MemoryFile(lines));
  MCCS_ASSIGN_OR_RETURN(UniqueFd output, MemoryFile(""));
  MCCS_ASSIGN_OR_RETURN(pid_t child, Spawn({.file = tool,
                                            .argv = {tool, "-batch", "-"},
                                            .input = input.get(),
                                            .output = output.get(),
                                            .error = output.get(),
                                            .place = {.node = node}}));
  int wait_status = 0;
  while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (ExitStatusOf(wait_status) == 0) return absl::OkStatus();
  std::string output_text(kMaxToolOutputBytes, '\0');
  const ssize_t got = pread(output.get(), output_text.data(), output_text.size(), 0);
  output_text.resize(got > 0 ? got : 0);
  return absl::InternalError(absl::StrCat(tool, " ", DescribeEnd(wait_status), " at '",
                                          FailedLine(lines, output_text),
                                          "': ", absl::StripAsciiWhitespace(output_text)));
}

absl::StatusOr<uint16_t> FreePort(const std::string& address) {
  UniqueFd socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &place.sin_addr);
  socklen_t size = sizeof(place);
  if (bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&place), size) != 0 ||
      getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&place), &size) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("no free port at ", address));
  }
  return ntohs(place.sin_port);
}

}  // namespace mccs::lab
