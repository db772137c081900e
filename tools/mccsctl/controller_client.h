// Client of the controller's operator API. Each call has a deadline; errors include a remedy.
#ifndef MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_
#define MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/operator.pb.h"

namespace mccs {

// The controller, and how long to wait for its replies.
struct ControllerTarget {
  std::string address = "127.0.0.1:7500";  // host:port
  std::string tls = {};  // directory of the operator's certificate; empty: connect without TLS
  // File of a bearer token, which takes the place of the certificate: of `tls` only ca.crt is used.
  std::string token = {};
  // Of each call; nothing: ControllerClient's limits.
  std::optional<double> timeout_s = {};
};

// THREAD: one. Each call blocks for at most the target's timeout, else kCallSeconds or the longer
// limits below.
class ControllerClient {
 public:
  static constexpr double kCallSeconds = 1.8;
  // Lists of objects and of the audit log: up to 10,000 objects.
  static constexpr double kListSeconds = 10;
  // Changes: the controller waits for its disk, and may parse thousands of hosts.
  static constexpr double kChangeSeconds = 30;
  // Dumps: the controller waits for a daemon.
  static constexpr double kDumpSeconds = 10;
  // Traces: the controller waits up to 13 s for daemons.
  static constexpr double kTraceSeconds = 20;

  explicit ControllerClient(const ControllerTarget& target);
  ~ControllerClient();

  // Errors of all calls:
  // Those of CheckTlsFiles and CheckKind: the operator's certificate cannot be used. Likewise the
  // token.
  // kUnavailable: cannot connect to the address, which the message names.
  // kDeadlineExceeded: no reply in time; the controller may still execute the call.
  // Else the controller's own status.
  absl::StatusOr<control::v1::ListHostsReply> ListHosts();
  absl::StatusOr<control::v1::ListCommunicatorsReply> ListCommunicators();
  absl::StatusOr<control::v1::CommunicatorDetail> DescribeCommunicator(const std::string& id);
  absl::StatusOr<control::v1::Explanation> ExplainCommunicator(const std::string& id);
  absl::StatusOr<control::v1::ListWorkReply> ListWork();
  absl::StatusOr<control::v1::DumpReply> Dump(const std::string& host);
  absl::StatusOr<control::v1::TraceReply> TraceCommunicator(const std::string& id,
                                                            uint32_t operations);
  absl::StatusOr<control::v1::VersionReply> Version();
  absl::StatusOr<control::v1::ChangeReply> Apply(const control::v1::ApplyRequest& request);
  absl::StatusOr<control::v1::ChangeReply> Delete(const control::v1::DeleteRequest& request);
  absl::StatusOr<control::v1::ListObjectsReply> ListObjects(const std::string& kind,
                                                            const std::vector<std::string>& names);
  absl::StatusOr<control::v1::DrainReply> Drain(const control::v1::DrainRequest& request);
  absl::StatusOr<control::v1::ListAuditReply> ListAudit(uint32_t limit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_
