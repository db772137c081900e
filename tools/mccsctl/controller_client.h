// Client of the controller's operator API. Each call has a deadline; errors include a remedy.
#ifndef MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_
#define MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/operator.pb.h"

namespace mccs {

// THREAD: one. Each call blocks for at most kCallSeconds, or the longer limits below.
class ControllerClient {
 public:
  static constexpr double kCallSeconds = 1.8;
  // Lists of objects and of the audit log: up to 10,000 objects.
  static constexpr double kListSeconds = 10;
  // Changes: the controller waits for its disk, and may parse thousands of hosts.
  static constexpr double kChangeSeconds = 30;
  // Dumps: the controller waits for a daemon.
  static constexpr double kDumpSeconds = 10;

  // `address`: "host:port".
  explicit ControllerClient(const std::string& address);
  ~ControllerClient();

  // Errors of all calls:
  // kUnavailable: cannot connect to the address, which the message names.
  // kDeadlineExceeded: no reply in time; the controller may still execute the call.
  // Else the controller's own status.
  absl::StatusOr<control::ListHostsReply> ListHosts();
  absl::StatusOr<control::ListCommunicatorsReply> ListCommunicators();
  absl::StatusOr<control::CommunicatorDetail> DescribeCommunicator(const std::string& id);
  absl::StatusOr<control::Explanation> ExplainCommunicator(const std::string& id);
  absl::StatusOr<control::ListWorkReply> ListWork();
  absl::StatusOr<control::DumpReply> Dump(const std::string& host);
  absl::StatusOr<control::VersionReply> Version();
  absl::StatusOr<control::ChangeReply> Apply(const control::ApplyRequest& request);
  absl::StatusOr<control::ChangeReply> Delete(const control::DeleteRequest& request);
  absl::StatusOr<control::ListObjectsReply> ListObjects(const std::string& kind,
                                                        const std::vector<std::string>& names);
  absl::StatusOr<control::DrainReply> Drain(const control::DrainRequest& request);
  absl::StatusOr<control::ListAuditReply> ListAudit(uint32_t limit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_
