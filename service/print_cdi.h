// The Container Device Interface description of this host's sockets: what a container of a tenant
// gets (its socket, the libraries, the environment), for containerd, CRI-O, Docker and Podman.
// Pure, except for PrintCdi.
#ifndef MCCS_SERVICE_PRINT_CDI_H_
#define MCCS_SERVICE_PRINT_CDI_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/config.h"

namespace mccs {

// Devices have the names "mccs/socket=NAME".
inline constexpr char kCdiKind[] = "mccs/socket";

struct CdiSocket {
  // Of the device: the Tenant's, or "default"; of its later sockets with ":" and a number. Unique.
  std::string name;
  std::string path;    // on the host
  bool alone = false;  // in a directory that mccsd has made for it alone
};

// The sockets of this host: the default one, those of the configuration, and those that Tenants
// declare in the table that mccsd has kept. kDataLoss: the table is damaged.
absl::StatusOr<std::vector<CdiSocket>> CdiSockets(const Config& config);

// As JSON. `library_dir`: of libnccl.so.2 on the host, and in containers.
std::string CdiText(const std::vector<CdiSocket>& sockets, const std::string& library_dir);

// `mccsd --print-cdi`: writes it to standard output. Returns the exit status.
int PrintCdi(const Config& config, const std::string& library_dir);

}  // namespace mccs

#endif  // MCCS_SERVICE_PRINT_CDI_H_
