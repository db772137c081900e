#include "lab/daemon_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <deque>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mccs::lab {
namespace {

constexpr size_t kTailLines = 12;

absl::Status WriteFolder(const LabPaths& paths, const std::string& daemon,
                         const std::string& config) {
  if (mkdir(paths.DaemonDirectory(daemon).c_str(), 0700) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot create ", paths.DaemonDirectory(daemon)));
  }
  std::ofstream file(paths.Config(daemon));
  file << config << std::flush;
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", paths.Config(daemon)));
  return absl::OkStatus();
}

std::string SocketsOf(const LabPaths& paths, const std::string& host,
                      const std::vector<std::string>& tenants) {
  std::string text = tenants.empty() ? "" : "sockets:\n";
  for (const std::string& tenant : tenants) {
    absl::StrAppend(&text, "  - {path: ", paths.Socket(host, tenant), ", tenant: '", tenant,
                    "'}\n");
  }
  return text;
}

std::optional<std::string> ReadAddress(const std::string& path) {
  std::ifstream file(path);
  std::string address;
  if (!(file >> address) || address.find(':') == std::string::npos) return std::nullopt;
  return address;
}

}  // namespace

absl::Status WriteControllerFiles(const LabPaths& paths, const std::string& listen) {
  return WriteFolder(paths, kControllerName,
                     absl::StrCat("listen: ", listen, "\n",
                                  "metrics_listen: ", listen.substr(0, listen.rfind(':')), ":0\n",
                                  "state_dir: ", paths.DaemonDirectory(kControllerName), "\n"));
}

absl::Status WriteHostFiles(const LabPaths& paths, const LabHost& host,
                            const std::string& controller_endpoint,
                            const std::vector<std::string>& tenants, const std::string& more) {
  const std::string endpoint = absl::StrCat(host.address, ":", host.port);
  const std::string listen = host.listens_everywhere ? absl::StrCat("listen: 0.0.0.0:", host.port,
                                                                    "\nadvertise: ", endpoint)
                                                     : absl::StrCat("listen: ", endpoint);
  return WriteFolder(paths, host.name,
                     absl::StrCat("host: ", host.name, "\n",                  //
                                  "socket: ", paths.Socket(host.name), "\n",  //
                                  listen, "\n",                               //
                                  "metrics_listen: ", host.address, ":0\n",
                                  "state_dir: ", paths.DaemonDirectory(host.name), "\n",  //
                                  "controller: ", controller_endpoint, "\n",              //
                                  "gpus: ", host.gpus, "\n",                              //
                                  "position: {pod: '", host.pod, "', rack: '", host.rack, "'}\n",
                                  "dscp: {1: 8, 2: 16, 3: 24, 4: 32, 5: 40, 6: 48, 7: 56}\n",
                                  "log_level: info\n", SocketsOf(paths, host.name, tenants), more));
}

std::optional<std::string> ReadEndpoint(const LabPaths& paths, std::string_view daemon) {
  return ReadAddress(paths.Endpoint(daemon));
}

std::optional<std::string> ReadMetricsEndpoint(const LabPaths& paths, std::string_view daemon) {
  return ReadAddress(paths.MetricsEndpoint(daemon));
}

std::string LogTail(const LabPaths& paths, std::string_view daemon) {
  std::ifstream file(paths.Log(daemon));
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back("  " + line);
    if (lines.size() > kTailLines) lines.pop_front();
  }
  return lines.empty() ? "  (the log is empty)" : absl::StrJoin(lines, "\n");
}

}  // namespace mccs::lab
