#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/transport/rdma/ib_library.h"
#include "service/transport/rdma/ib_source_port.h"
#include "service/transport/rdma/ib_verbs.h"

namespace mccs {
namespace {

std::string ReadLine(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string TextOf(const ibv_gid& gid) {
  std::string text;
  for (size_t i = 0; i < sizeof(gid.raw); i += 2) {
    absl::StrAppend(&text, i == 0 ? "" : ":", absl::Hex(gid.raw[i], absl::kZeroPad2),
                    absl::Hex(gid.raw[i + 1], absl::kZeroPad2));
  }
  return text;
}

std::vector<IbGid> ListGids(const IbLibrary& library, ibv_context* device, const std::string& sysfs,
                            uint8_t port, int count) {
  std::vector<IbGid> gids;
  for (int index = 0; index < std::min(count, 256); ++index) {
    const std::string type =
        ReadLine(absl::StrCat(sysfs, "/ports/", port, "/gid_attrs/types/", index));
    ibv_gid gid{};
    if (type.empty() || (library.query_gid)(device, port, index, &gid) != 0) continue;
    gids.push_back({.index = static_cast<uint8_t>(index),
                    .routable = absl::StrContains(type, "RoCE v2"),
                    .text = TextOf(gid),
                    .address = MappedAddress(std::to_array(gid.raw))});
  }
  return gids;
}

// The network interfaces of a port: those of a RoCE port by its GIDs, of an InfiniBand port by the
// device's.
std::vector<std::string> ListNics(const std::string& sysfs, uint8_t port, bool infiniband) {
  std::set<std::string> nics;
  std::error_code error;
  const std::string directory = infiniband
                                    ? absl::StrCat(sysfs, "/device/net")
                                    : absl::StrCat(sysfs, "/ports/", port, "/gid_attrs/ndevs");
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    nics.insert(infiniband ? name : ReadLine(absl::StrCat(directory, "/", name)));
  }
  nics.erase("");
  return {nics.begin(), nics.end()};
}

}  // namespace

absl::StatusOr<std::vector<IbPortInfo>> ListIbPorts() {
  MCCS_ASSIGN_OR_RETURN(const IbLibrary* const library, IbLibrary::Get());
  int count = 0;
  ibv_device** const devices = (library->get_device_list)(&count);
  std::vector<IbPortInfo> ports;
  for (int i = 0; devices != nullptr && i < count; ++i) {
    const std::string name = (library->get_device_name)(devices[i]);
    const std::string sysfs = absl::StrCat("/sys/class/infiniband/", name);
    ibv_context* const device = (library->open_device)(devices[i]);
    if (device == nullptr) {
      ports.push_back({.device = name,
                       .problem = absl::StrCat("cannot open it: ", std::strerror(errno),
                                               "; check the permissions of /dev/infiniband")});
      continue;
    }
    ibv_device_attr attributes{};
    (library->query_device)(device, &attributes);
    for (int port = 1; port <= attributes.phys_port_cnt; ++port) {
      const auto number = static_cast<uint8_t>(port);
      ibv_port_attr state{};
      if ((library->query_port)(device, number, reinterpret_cast<_compat_ibv_port_attr*>(&state)) !=
          0) {
        continue;
      }
      const bool infiniband = state.link_layer == IBV_LINK_LAYER_INFINIBAND;
      ports.push_back(
          {.device = name,
           .port = number,
           .problem = HasWindows(attributes) ? "" : kNoWindows,
           .active = state.state == IBV_PORT_ACTIVE,
           .state = (library->port_state_str)(state.state),
           .infiniband = infiniband,
           .mtu_bytes = MtuBytes(state.active_mtu),
           .gids = ListGids(*library, device, sysfs, number, state.gid_tbl_len),
           .nics = ListNics(sysfs, number, infiniband),
           .source_port_means = infiniband ? SourcePortMeans::kNone : SourcePortMeansOf(device)});
    }
    (library->close_device)(device);
  }
  if (devices != nullptr) (library->free_device_list)(devices);
  return ports;
}

}  // namespace mccs
