// The certificates of a lab: each has an authority of its own, so that one lab's programs have no
// access to another lab.
#ifndef MCCS_LAB_CERTIFICATES_H_
#define MCCS_LAB_CERTIFICATES_H_

#include <span>
#include <string>

#include "absl/status/status.h"
#include "lab/lab_state.h"

namespace mccs::lab {

// Writes the authority and the certificates of the controller, the hosts and an operator.
absl::Status WriteCertificates(const LabPaths& paths, std::span<const LabHost> hosts);

// The lines `tls` of the configuration of the controller or of a host's daemon.
std::string ControllerTlsLines(const LabPaths& paths);
std::string HostTlsLines(const LabPaths& paths, const std::string& host);

}  // namespace mccs::lab

#endif  // MCCS_LAB_CERTIFICATES_H_
