#include "lab/certificates.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "trust/certificate_authority.h"
#include "trust/certificate_directory.h"

namespace mccs::lab {
namespace {

constexpr char kDomain[] = "lab";
constexpr int64_t kSecondsPerDay = 24 * 60 * 60;
constexpr int64_t kDays = 365;  // of a lab

const Identity kController{kDomain, Identity::Kind::kController, ""};

Identity DaemonOf(const std::string& host) { return {kDomain, Identity::Kind::kHost, host}; }

std::string TlsLines(const LabPaths& paths, const Identity& identity) {
  const TlsFiles files = TlsFilesIn(DirectoryOf(paths.Authority(), identity));
  return absl::StrCat("tls: {authority: '", files.authority, "', certificate: '", files.certificate,
                      "', key: '", files.key, "'}\n");
}

}  // namespace

absl::Status WriteCertificates(const LabPaths& paths, std::span<const LabHost> hosts) {
  const int64_t now_s = SystemWallClock().Now() / kNsPerSec;
  const Validity validity{now_s - kSecondsPerDay, now_s + kDays * kSecondsPerDay};
  MCCS_ASSIGN_OR_RETURN(const CertificateAuthority authority,
                        CertificateAuthority::Create(kDomain, validity));
  MCCS_RETURN_IF_ERROR(WriteAuthority(paths.Authority(), authority));
  MCCS_ASSIGN_OR_RETURN(const CertificateAndKey pem, authority.Pem());
  const auto issue = [&](const Identity& identity) -> absl::Status {
    MCCS_ASSIGN_OR_RETURN(const CertificateAndKey issued, authority.Issue(identity, validity));
    return WriteCertificate(DirectoryOf(paths.Authority(), identity), pem.certificate, issued);
  };
  MCCS_RETURN_IF_ERROR(issue(kController));
  MCCS_RETURN_IF_ERROR(issue({kDomain, Identity::Kind::kOperator, LabPaths::kOperator}));
  for (const LabHost& host : hosts) MCCS_RETURN_IF_ERROR(issue(DaemonOf(host.name)));
  return absl::OkStatus();
}

std::string ControllerTlsLines(const LabPaths& paths) { return TlsLines(paths, kController); }

std::string HostTlsLines(const LabPaths& paths, const std::string& host) {
  return TlsLines(paths, DaemonOf(host));
}

}  // namespace mccs::lab
