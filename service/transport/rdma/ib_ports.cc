#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/transport/rdma/ib_library.h"
#include "service/transport/rdma/ib_verbs.h"

namespace mccs {
namespace {

std::string ReadLine(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// The IPv4 address that a GID maps, or "".
std::string MappedAddress(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(gid.raw, kPrefix, sizeof(kPrefix)) != 0) return "";
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, gid.raw + sizeof(kPrefix), text, sizeof(text)) != nullptr ? text : "";
}

void ListGids(const IbLibrary& library, ibv_context* device, const std::string& name, uint8_t port,
              std::vector<IbPort>* ports) {
  ibv_port_attr state{};
  if ((library.query_port)(device, port, reinterpret_cast<_compat_ibv_port_attr*>(&state)) != 0 ||
      state.state != IBV_PORT_ACTIVE) {
    return;
  }
  for (int index = 0; index < std::min(state.gid_tbl_len, 256); ++index) {
    const std::string type = ReadLine(
        absl::StrCat("/sys/class/infiniband/", name, "/ports/", port, "/gid_attrs/types/", index));
    ibv_gid gid{};
    if (!absl::StrContains(type, "RoCE v2")) continue;
    if ((library.query_gid)(device, port, index, &gid) != 0) continue;
    ports->push_back({.device = name,
                      .port = port,
                      .gid_index = static_cast<uint8_t>(index),
                      .address = MappedAddress(gid)});
  }
}

}  // namespace

absl::StatusOr<std::vector<IbPort>> ListIbPorts() {
  MCCS_ASSIGN_OR_RETURN(const IbLibrary* const library, IbLibrary::Get());
  int count = 0;
  ibv_device** const devices = (library->get_device_list)(&count);
  std::vector<IbPort> ports;
  for (int i = 0; devices != nullptr && i < count; ++i) {
    const std::string name = (library->get_device_name)(devices[i]);
    ibv_context* const device = (library->open_device)(devices[i]);
    if (device == nullptr) continue;
    ibv_device_attr attributes{};
    if ((library->query_device)(device, &attributes) == 0) {
      for (uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
        ListGids(*library, device, name, port, &ports);
      }
    }
    (library->close_device)(device);
  }
  if (devices != nullptr) (library->free_device_list)(devices);
  return ports;
}

}  // namespace mccs
