#include "tools/mccsctl/controller_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "proto/message_limits.h"
#include "proto/operator.grpc.pb.h"

namespace mccs {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  // Ignore http_proxy: the controller is not behind a web proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// Timeout of a call.
struct CallLimit {
  double seconds = ControllerClient::kCallSeconds;
  bool changes = false;  // the call changes objects
};

}  // namespace

struct ControllerClient::Impl {
  explicit Impl(const std::string& where)
      : address(where), stub(control::Operator::NewStub(MakeChannel(where))) {}

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(grpc::Status (control::Operator::Stub::*method)(grpc::ClientContext*,
                                                                             const Request&,
                                                                             Reply*),
                             const Request& request, const CallLimit& waiting = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<int>(waiting.seconds * 1000)));
    Reply reply;
    const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
    if (status.ok()) return reply;
    return Explain(status, waiting);
  }

  absl::Status Explain(const grpc::Status& status, const CallLimit& waiting) const {
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
        return absl::UnavailableError(absl::StrCat(
            "cannot reach mccs-controller at ", address, ": ", status.error_message(),
            "; check that it is running, or set its address with --controller HOST:PORT or "
            "MCCS_CONTROLLER"));
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return absl::DeadlineExceededError(absl::StrCat(
            "no reply from mccs-controller at ", address, " within ", waiting.seconds,
            waiting.changes ? " s; the change may have been made: check with mccsctl get"
                            : " s: it is busy, or the address is wrong"));
      case grpc::StatusCode::UNIMPLEMENTED:
        return absl::UnimplementedError(
            absl::StrCat("the server at ", address,
                         " is not an mccs-controller of this release: ", status.error_message()));
      default:
        return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                            status.error_message());
    }
  }

  const std::string address;
  const std::unique_ptr<control::Operator::Stub> stub;
};

ControllerClient::ControllerClient(const std::string& address)
    : impl_(std::make_unique<Impl>(address)) {}

ControllerClient::~ControllerClient() = default;

absl::StatusOr<control::ListHostsReply> ControllerClient::ListHosts() {
  return impl_->Call(&control::Operator::Stub::ListHosts, control::ListHostsRequest());
}

absl::StatusOr<control::ListCommunicatorsReply> ControllerClient::ListCommunicators() {
  return impl_->Call(&control::Operator::Stub::ListCommunicators,
                     control::ListCommunicatorsRequest());
}

absl::StatusOr<control::CommunicatorDetail> ControllerClient::DescribeCommunicator(
    const std::string& id) {
  control::DescribeCommunicatorRequest request;
  request.set_id(id);
  return impl_->Call(&control::Operator::Stub::DescribeCommunicator, request);
}

absl::StatusOr<control::Explanation> ControllerClient::ExplainCommunicator(const std::string& id) {
  control::DescribeCommunicatorRequest request;
  request.set_id(id);
  return impl_->Call(&control::Operator::Stub::ExplainCommunicator, request);
}

absl::StatusOr<control::ListWorkReply> ControllerClient::ListWork() {
  return impl_->Call(&control::Operator::Stub::ListWork, control::ListWorkRequest());
}

absl::StatusOr<control::DumpReply> ControllerClient::Dump(const std::string& host) {
  control::DumpRequest request;
  request.set_host(host);
  return impl_->Call(&control::Operator::Stub::Dump, request, {.seconds = kDumpSeconds});
}

absl::StatusOr<control::VersionReply> ControllerClient::Version() {
  return impl_->Call(&control::Operator::Stub::Version, control::VersionRequest());
}

absl::StatusOr<control::ChangeReply> ControllerClient::Apply(const control::ApplyRequest& request) {
  return impl_->Call(&control::Operator::Stub::Apply, request,
                     {.seconds = kChangeSeconds, .changes = !request.dry_run()});
}

absl::StatusOr<control::ChangeReply> ControllerClient::Delete(
    const control::DeleteRequest& request) {
  return impl_->Call(&control::Operator::Stub::Delete, request,
                     {.seconds = kChangeSeconds, .changes = !request.dry_run()});
}

absl::StatusOr<control::ListObjectsReply> ControllerClient::ListObjects(
    const std::string& kind, const std::vector<std::string>& names) {
  control::ListObjectsRequest request;
  request.set_kind(kind);
  request.mutable_names()->Add(names.begin(), names.end());
  return impl_->Call(&control::Operator::Stub::ListObjects, request, {.seconds = kListSeconds});
}

absl::StatusOr<control::DrainReply> ControllerClient::Drain(const control::DrainRequest& request) {
  return impl_->Call(&control::Operator::Stub::Drain, request,
                     {.seconds = kChangeSeconds, .changes = true});
}

absl::StatusOr<control::ListAuditReply> ControllerClient::ListAudit(uint32_t limit) {
  control::ListAuditRequest request;
  request.set_limit(limit);
  return impl_->Call(&control::Operator::Stub::ListAudit, request, {.seconds = kListSeconds});
}

}  // namespace mccs
