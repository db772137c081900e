// The controller's gRPC server: agents' streams, operators' API and health on one port.
#ifndef MCCS_CONTROLLER_API_SERVER_H_
#define MCCS_CONTROLLER_API_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "controller/api/access.h"
#include "controller/coordinator/coordinator.h"
#include "controller/state/catalog.h"
#include "trust/grpc/credentials.h"

namespace mccs {

class ControllerServer {
 public:
  // Listens at `address` ("0.0.0.0:7500", "[::]:7500"; port 0: the system chooses).
  // kUnavailable: the address is in use or not local.
  // `tls`: without files clients need no certificate. `access` decides whether they must have one.
  // LIFETIME: `coordinator`, `catalog`, `access`, `log` and what `tls` uses outlive it.
  static absl::StatusOr<std::unique_ptr<ControllerServer>> Start(const std::string& address,
                                                                 const ServerTls& tls,
                                                                 const Access* access,
                                                                 SharedCoordinator* coordinator,
                                                                 Catalog* catalog, Log* log);
  ~ControllerServer();  // Stops, and waits for running calls.

  int port() const;
  // Call several times per heartbeat timeout.
  void Tick();

 private:
  struct Impl;
  explicit ControllerServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_SERVER_H_
