#include "controller/certificate_commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "controller/state/operator_roles.h"
#include "trust/certificate_directory.h"

namespace mccs {
namespace {

constexpr int64_t kSecondsPerDay = 24 * 60 * 60;
// A certificate is valid a little earlier than the clock here says: others may be behind.
constexpr int64_t kClockToleranceSeconds = 5 * 60;
constexpr int kMostDays = 36500;

Validity ValidFor(int days, const WallClock& clock) {
  const int64_t now_s = clock.Now() / kNsPerSec;
  return {now_s - kClockToleranceSeconds, now_s + days * kSecondsPerDay};
}

absl::Status Issue(const CertificateAuthority& authority, const std::string& directory,
                   const Identity& identity, const Validity& validity) {
  MCCS_ASSIGN_OR_RETURN(const CertificateAndKey issued, authority.Issue(identity, validity));
  MCCS_ASSIGN_OR_RETURN(const CertificateAndKey pem, authority.Pem());
  MCCS_RETURN_IF_ERROR(WriteCertificate(directory, pem.certificate, issued));
  std::cout << directory << ": " << ToString(identity) << ", valid until "
            << FormatTime(ParseCertificate(issued.certificate)->validity.to_s) << "\n";
  return absl::OkStatus();
}

}  // namespace

struct CertificateCommands::Options {
  CLI::App* init = nullptr;
  CLI::App* issue = nullptr;
  std::string directory;
  std::string domain = kDefaultTrustDomain;
  std::string out;
  std::vector<std::string> hosts, operators;
  bool controller = false;
  int authority_days = 3650;
  int days = 365;

  absl::Status Init(const WallClock& clock) const;
  absl::Status IssueAll(const CertificateAuthority& authority, const WallClock& clock) const;
};

CertificateCommands::CertificateCommands(CLI::App* app) : options_(std::make_unique<Options>()) {
  Options& options = *options_;
  const CLI::Range days(1, kMostDays);
  options.init = app->add_subcommand(
      "init-ca",
      "Make a certificate authority, and certificates of the controller and of an admin");
  options.issue = app->add_subcommand("issue-certificate",
                                      "Issue certificates of hosts, operators or the controller");
  for (CLI::App* const command : {options.init, options.issue}) {
    command->add_option("DIR", options.directory, "Directory of the authority")->required();
    command
        ->add_option("--host", options.hosts,
                     "Host to issue a certificate to, as in `host` of its mccsd's configuration")
        ->type_name("NAME ...");
    command->add_option("--days", options.days, "Days for which the certificates are valid")
        ->check(days)
        ->capture_default_str();
  }
  options.init->add_option("--domain", options.domain, "Trust domain: the name of the cluster")
      ->capture_default_str();
  options.init
      ->add_option("--ca-days", options.authority_days, "Days for which the authority is valid")
      ->check(days)
      ->capture_default_str();
  options.init->footer(
      "Keep DIR/ca.key secret; no daemon needs it.\n\n"
      "Examples:\n  mccs-controller init-ca /root/mccs-pki --host h1 h2 h3");
  options.issue
      ->add_option("--operator", options.operators,
                   "Operator to issue a certificate to; its role is set in the controller's "
                   "configuration")
      ->type_name("NAME ...");
  options.issue->add_flag("--controller", options.controller, "Issue one to the controller");
  options.issue->add_option("--out", options.out,
                            "Directory for ca.crt, tls.crt and tls.key of a single certificate "
                            "(default: in DIR)");
  options.issue->footer(
      "Programs read new files within seconds, without a restart.\n\n"
      "Examples:\n"
      "  mccs-controller issue-certificate /root/mccs-pki --host h4\n"
      "  mccs-controller issue-certificate /root/mccs-pki --operator alice --days 30");
}

CertificateCommands::~CertificateCommands() = default;

absl::Status CertificateCommands::Options::Init(const WallClock& clock) const {
  MCCS_ASSIGN_OR_RETURN(const CertificateAuthority authority,
                        CertificateAuthority::Create(domain, ValidFor(authority_days, clock)));
  for (const std::string& host : hosts) MCCS_RETURN_IF_ERROR(CheckIdentityName(host));
  MCCS_RETURN_IF_ERROR(WriteAuthority(directory, authority));
  Options first = *this;
  first.controller = true;
  first.operators = {kFirstOperator};
  return first.IssueAll(authority, clock);
}

absl::Status CertificateCommands::Options::IssueAll(const CertificateAuthority& authority,
                                                    const WallClock& clock) const {
  std::vector<Identity> identities;
  if (controller) identities.push_back({authority.domain(), Identity::Kind::kController, ""});
  for (const std::string& host : hosts)
    identities.push_back({authority.domain(), Identity::Kind::kHost, host});
  for (const std::string& name : operators)
    identities.push_back({authority.domain(), Identity::Kind::kOperator, name});
  if (identities.empty()) {
    return absl::InvalidArgumentError(
        "nothing to issue: name --host NAME, --operator NAME or --controller");
  }
  if (!out.empty() && identities.size() > 1)
    return absl::InvalidArgumentError("--out is the directory of one certificate; issue one");
  for (const Identity& identity : identities) {
    MCCS_RETURN_IF_ERROR(Issue(authority, out.empty() ? DirectoryOf(directory, identity) : out,
                               identity, ValidFor(days, clock)));
  }
  return absl::OkStatus();
}

std::optional<int> CertificateCommands::Run(const WallClock& clock) const {
  absl::Status status;
  if (options_->init->parsed()) {
    status = options_->Init(clock);
  } else if (options_->issue->parsed()) {
    const absl::StatusOr<CertificateAuthority> authority = ReadAuthority(options_->directory);
    status = authority.ok() ? options_->IssueAll(*authority, clock) : authority.status();
  } else {
    return std::nullopt;
  }
  if (status.ok() && std::cout.flush()) return 0;
  std::cerr << "mccs-controller: " << std::string(status.message()) << "\n";
  return 1;
}

}  // namespace mccs
