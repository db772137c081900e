#include "tools/mccsctl/controller_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "proto/message_limits.h"
#include "proto/operator.grpc.pb.h"
#include "trust/certificate_directory.h"
#include "trust/files.h"
#include "trust/grpc/credentials.h"

namespace mccs {
namespace {

using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

absl::StatusOr<Credentials> CertificateCredentials(const TlsFiles& files) {
  MCCS_ASSIGN_OR_RETURN(const CertificateFacts facts,
                        CheckTlsFiles(files, SystemWallClock().Now() / kNsPerSec));
  MCCS_RETURN_IF_ERROR(CheckKind(facts, Identity::Kind::kOperator, "mccsctl"));
  return TlsChannelCredentials(files, facts.identity.domain);
}

absl::StatusOr<Credentials> TokenCredentials(const ControllerTarget& target) {
  if (target.tls.empty()) {
    return absl::InvalidArgumentError(
        "a token must not cross the network in plain: name a directory with the authority's "
        "certificate, ca.crt, with --tls DIR or MCCS_TLS");
  }
  const std::string authority = TlsFilesIn(target.tls).authority;
  MCCS_ASSIGN_OR_RETURN(const std::string pem, ReadTextFile("the authority's file", authority));
  MCCS_ASSIGN_OR_RETURN(const std::string domain, TrustDomainOf(pem));
  MCCS_ASSIGN_OR_RETURN(const std::string token, ReadTextFile("the token's file", target.token));
  return TokenChannelCredentials(authority, domain, std::string(absl::StripAsciiWhitespace(token)));
}

absl::StatusOr<Credentials> CredentialsFor(const ControllerTarget& target) {
  if (!target.token.empty()) return TokenCredentials(target);
  if (!target.tls.empty()) return CertificateCredentials(TlsFilesIn(target.tls));
  return grpc::InsecureChannelCredentials();
}

// Null: `target` has credentials that cannot be used, for the reason in `why`.
std::shared_ptr<grpc::Channel> MakeChannel(const ControllerTarget& target, absl::Status* why) {
  const absl::StatusOr<Credentials> credentials = CredentialsFor(target);
  *why = credentials.status();
  if (!why->ok()) return nullptr;
  grpc::ChannelArguments arguments;
  // Ignore http_proxy: the controller is not behind a web proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  return grpc::CreateCustomChannel(target.address, *credentials, arguments);
}

// Timeout of a call.
struct CallLimit {
  double seconds = ControllerClient::kCallSeconds;
  bool changes = false;  // the call changes objects
};

}  // namespace

struct ControllerClient::Impl {
  explicit Impl(const ControllerTarget& where) : target(where) {
    if (const auto channel = MakeChannel(where, &why_no_channel))
      stub = control::v1::Operator::NewStub(channel);
  }

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(grpc::Status (control::v1::Operator::Stub::*method)(
                                 grpc::ClientContext*, const Request&, Reply*),
                             const Request& request, CallLimit waiting = {}) {
    if (stub == nullptr) return why_no_channel;
    waiting.seconds = target.timeout_s.value_or(waiting.seconds);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<int>(waiting.seconds * 1000)));
    Reply reply;
    const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
    if (status.ok()) return reply;
    return Explain(status, waiting);
  }

  absl::Status Explain(const grpc::Status& status, const CallLimit& waiting) const {
    if (const std::string why = WhyServerRefused(status); !why.empty()) {
      return absl::UnavailableError(
          absl::StrCat("cannot use mccs-controller at ", target.address, ": ", why));
    }
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
        return absl::UnavailableError(absl::StrCat(
            "cannot reach mccs-controller at ", target.address, ": ", status.error_message(),
            "; check that it is running, or set its address with --controller HOST:PORT or "
            "MCCS_CONTROLLER",
            target.tls.empty()
                ? "; if it requires certificates, name yours with --tls DIR or MCCS_TLS"
                : "; it must use certificates of the same authority"));
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return absl::DeadlineExceededError(absl::StrCat(
            "no reply from mccs-controller at ", target.address, " within ", waiting.seconds,
            waiting.changes ? " s; the change may have been made: check with mccsctl get"
                            : " s: it is busy (see --timeout), or the address is wrong"));
      case grpc::StatusCode::UNIMPLEMENTED:
        return absl::UnimplementedError(
            absl::StrCat("the server at ", target.address,
                         " is not an mccs-controller of this release: ", status.error_message()));
      default:
        return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                            status.error_message());
    }
  }

  const ControllerTarget target;
  absl::Status why_no_channel;
  std::unique_ptr<control::v1::Operator::Stub> stub;
};

ControllerClient::ControllerClient(const ControllerTarget& target)
    : impl_(std::make_unique<Impl>(target)) {}

ControllerClient::~ControllerClient() = default;

absl::StatusOr<control::v1::ListHostsReply> ControllerClient::ListHosts() {
  return impl_->Call(&control::v1::Operator::Stub::ListHosts, control::v1::ListHostsRequest());
}

absl::StatusOr<control::v1::ListCommunicatorsReply> ControllerClient::ListCommunicators() {
  return impl_->Call(&control::v1::Operator::Stub::ListCommunicators,
                     control::v1::ListCommunicatorsRequest());
}

absl::StatusOr<control::v1::CommunicatorDetail> ControllerClient::DescribeCommunicator(
    const std::string& id) {
  control::v1::DescribeCommunicatorRequest request;
  request.set_id(id);
  return impl_->Call(&control::v1::Operator::Stub::DescribeCommunicator, request);
}

absl::StatusOr<control::v1::Explanation> ControllerClient::ExplainCommunicator(
    const std::string& id) {
  control::v1::DescribeCommunicatorRequest request;
  request.set_id(id);
  return impl_->Call(&control::v1::Operator::Stub::ExplainCommunicator, request);
}

absl::StatusOr<control::v1::ListWorkReply> ControllerClient::ListWork() {
  return impl_->Call(&control::v1::Operator::Stub::ListWork, control::v1::ListWorkRequest());
}

absl::StatusOr<control::v1::DumpReply> ControllerClient::Dump(const std::string& host) {
  control::v1::DumpRequest request;
  request.set_host(host);
  return impl_->Call(&control::v1::Operator::Stub::Dump, request, {.seconds = kDumpSeconds});
}

absl::StatusOr<control::v1::TraceReply> ControllerClient::TraceCommunicator(const std::string& id,
                                                                            uint32_t operations) {
  control::v1::TraceRequest request;
  request.set_id(id);
  request.set_operations(operations);
  return impl_->Call(&control::v1::Operator::Stub::TraceCommunicator, request,
                     {.seconds = kTraceSeconds});
}

absl::StatusOr<control::v1::VersionReply> ControllerClient::Version() {
  return impl_->Call(&control::v1::Operator::Stub::Version, control::v1::VersionRequest());
}

absl::StatusOr<control::v1::ChangeReply> ControllerClient::Apply(
    const control::v1::ApplyRequest& request) {
  return impl_->Call(&control::v1::Operator::Stub::Apply, request,
                     {.seconds = kChangeSeconds, .changes = !request.dry_run()});
}

absl::StatusOr<control::v1::ChangeReply> ControllerClient::Delete(
    const control::v1::DeleteRequest& request) {
  return impl_->Call(&control::v1::Operator::Stub::Delete, request,
                     {.seconds = kChangeSeconds, .changes = !request.dry_run()});
}

absl::StatusOr<control::v1::ListObjectsReply> ControllerClient::ListObjects(
    const std::string& kind, const std::vector<std::string>& names) {
  control::v1::ListObjectsRequest request;
  request.set_kind(kind);
  request.mutable_names()->Add(names.begin(), names.end());
  return impl_->Call(&control::v1::Operator::Stub::ListObjects, request, {.seconds = kListSeconds});
}

absl::StatusOr<control::v1::DrainReply> ControllerClient::Drain(
    const control::v1::DrainRequest& request) {
  return impl_->Call(&control::v1::Operator::Stub::Drain, request,
                     {.seconds = kChangeSeconds, .changes = true});
}

absl::StatusOr<control::v1::ListAuditReply> ControllerClient::ListAudit(uint32_t limit) {
  control::v1::ListAuditRequest request;
  request.set_limit(limit);
  return impl_->Call(&control::v1::Operator::Stub::ListAudit, request, {.seconds = kListSeconds});
}

}  // namespace mccs
