// Calls to the controller's operator API, each with a deadline and an error that says what to do.
#ifndef MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_
#define MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/operator.pb.h"

namespace mccs {

// THREAD: one. Each call blocks for kCallSeconds at most.
class ControllerClient {
 public:
  static constexpr double kCallSeconds = 1.8;

  // `address`: "host:port".
  explicit ControllerClient(const std::string& address);
  ~ControllerClient();

  // kUnavailable: nobody answers at the address, which is named. Else what the controller says.
  absl::StatusOr<control::ListHostsReply> ListHosts();
  absl::StatusOr<control::ListCommunicatorsReply> ListCommunicators();
  absl::StatusOr<control::CommunicatorDetail> DescribeCommunicator(const std::string& id);
  absl::StatusOr<control::VersionReply> Version();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_
