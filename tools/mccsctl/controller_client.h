// Calls to the controller's operator API, each with a deadline and an error that says what to do.
#ifndef MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_
#define MCCS_TOOLS_MCCSCTL_CONTROLLER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/operator.pb.h"

namespace mccs {

// THREAD: one. Each call blocks for kCallSeconds at most, but for lists of objects and of the audit
// log, changes and a dump.
class ControllerClient {
 public:
  static constexpr double kCallSeconds = 1.8;
  // There may be ten thousand.
  static constexpr double kListSeconds = 10;
  // The controller waits for its disk, and may have thousands of hosts to read.
  static constexpr double kChangeSeconds = 30;
  // It waits for a daemon.
  static constexpr double kDumpSeconds = 10;

  // `address`: "host:port".
  explicit ControllerClient(const std::string& address);
  ~ControllerClient();

  // kUnavailable: nobody is there at the address, which is named. kDeadlineExceeded: nobody has
  // answered in time; what was asked for may be done all the same. Else what the controller says.
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
