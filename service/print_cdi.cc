#include "service/print_cdi.h"

#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/agent/tenants_file.h"

namespace mccs {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// The oldest version with device names that begin with any letter or digit.
constexpr char kCdiVersion[] = "0.5.0";
// Where containers have the socket.
constexpr char kContainerDirectory[] = "/run/mccs";
constexpr int kIndent = 2;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// The characters that names of Tenants may have; those of the configuration get '_' in place of
// others, and a letter or digit in front.
std::string BaseName(std::string name) {
  for (char& c : name) {
    if (!IsAlphanumeric(c) && c != '_' && c != '-' && c != '.') c = '_';
  }
  return name.empty() || !IsAlphanumeric(name.front()) ? absl::StrCat("0", name) : name;
}

// Device names may have ':', but base names do not: so no two devices have the same name. Device
// names end with a letter or a digit.
std::string DeviceName(const std::string& base, int number) {
  return number == 1 && IsAlphanumeric(base.back()) ? base : absl::StrCat(base, ":", number);
}

// A mount that cannot be written. Connecting to a socket writes nothing.
Json Mount(const std::string& host_path, const std::string& container_path, bool executable) {
  Json options = {"ro", "nosuid", "nodev"};
  if (!executable) options.push_back("noexec");
  options.push_back("bind");
  return {{"hostPath", host_path}, {"containerPath", container_path}, {"options", options}};
}

Json DeviceOf(const CdiSocket& socket, const std::string& library_dir) {
  const fs::path path(socket.path);
  const std::string file = path.filename().string();
  const std::string in_container = absl::StrCat(kContainerDirectory, "/", file);
  const Json socket_mount = socket.alone
                                ? Mount(path.parent_path().string(), kContainerDirectory, false)
                                : Mount(socket.path, in_container, false);
  return {{"name", socket.name},
          {"containerEdits",
           {{"env",
             {absl::StrCat("MCCS_SOCKET=", in_container),
              absl::StrCat("LD_PRELOAD=", library_dir, "/libmccs-free-hooks.so:", library_dir,
                           "/libnccl.so.2")}},
            {"mounts", {socket_mount, Mount(library_dir, library_dir, true)}}}}};
}

}  // namespace

absl::StatusOr<std::vector<CdiSocket>> CdiSockets(const Config& config) {
  std::vector<CdiSocket> sockets;
  std::map<std::string, int> names;
  const auto add = [&](const std::string& name, const std::string& path) {
    const std::string base = BaseName(name);
    sockets.push_back({.name = DeviceName(base, ++names[base]), .path = path});
  };
  for (const TenantSocket& socket : config.sockets) add(socket.tenant, socket.path);
  const absl::StatusOr<agent::v1::Tenants> tenants = ReadTenantsFile(config.TenantsFile());
  if (!tenants.ok() && !absl::IsNotFound(tenants.status())) return tenants.status();
  if (tenants.ok() && !config.socket_dir.empty()) {
    for (const agent::v1::Tenant& tenant : tenants->tenants()) {
      for (const agent::v1::DeclaredSocket& socket : tenant.declared_sockets())
        add(tenant.name(), absl::StrCat(config.socket_dir, "/", socket.path()));
    }
  }
  if (!config.socket.empty()) add("default", config.socket);
  // Of a directory that mccsd has made for one socket, the container sees nothing else.
  for (CdiSocket& socket : sockets) {
    const std::string directory = fs::path(socket.path).parent_path().string() + "/";
    socket.alone = !config.socket_dir.empty() && directory != config.socket_dir + "/" &&
                   directory.starts_with(config.socket_dir + "/");
    for (const CdiSocket& other : sockets) {
      if (&other != &socket && other.path.starts_with(directory)) socket.alone = false;
    }
  }
  return sockets;
}

std::string CdiText(const std::vector<CdiSocket>& sockets, const std::string& library_dir) {
  Json devices = Json::array();
  for (const CdiSocket& socket : sockets) devices.push_back(DeviceOf(socket, library_dir));
  const Json spec = {{"cdiVersion", kCdiVersion}, {"kind", kCdiKind}, {"devices", devices}};
  return spec.dump(kIndent) + "\n";
}

int PrintCdi(const Config& config, const std::string& library_dir) {
  const absl::StatusOr<std::vector<CdiSocket>> sockets = CdiSockets(config);
  if (!sockets.ok()) {
    std::cerr << "mccsd: " << sockets.status().message() << "\n";
    return 1;
  }
  if (sockets->empty()) {
    std::cerr
        << "mccsd: this host has no sockets; set `socket` or `sockets` in mccsd's configuration, "
           "or apply a Tenant that declares one\n";
    return 1;
  }
  std::cout << CdiText(*sockets, library_dir) << std::flush;
  return std::cout ? 0 : 1;
}

}  // namespace mccs
