#include "controller/operator_service.h"

#include <string>

#include "controller/operator_view.h"

namespace mccs {
namespace {

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(
      grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message())));
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* OperatorService::ListHosts(grpc::CallbackServerContext* context,
                                                     const control::ListHostsRequest* /*request*/,
                                                     control::ListHostsReply* reply) {
  *reply =
      coordinator_->With([](Coordinator& c) { return mccs::ListHosts(c.registry(), c.Now()); });
  return Answer(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* OperatorService::ListCommunicators(
    grpc::CallbackServerContext* context, const control::ListCommunicatorsRequest* /*request*/,
    control::ListCommunicatorsReply* reply) {
  *reply = coordinator_->With(
      [](Coordinator& c) { return mccs::ListCommunicators(c.registry(), c.Now()); });
  return Answer(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* OperatorService::DescribeCommunicator(
    grpc::CallbackServerContext* context, const control::DescribeCommunicatorRequest* request,
    control::CommunicatorDetail* reply) {
  absl::StatusOr<control::CommunicatorDetail> detail = coordinator_->With([&](Coordinator& c) {
    return mccs::DescribeCommunicator(c.registry(), request->id(), c.Now());
  });
  if (detail.ok()) *reply = *std::move(detail);
  return Answer(context, detail.status());
}

grpc::ServerUnaryReactor* OperatorService::Version(grpc::CallbackServerContext* context,
                                                   const control::VersionRequest* /*request*/,
                                                   control::VersionReply* reply) {
  reply->set_version(coordinator_->With([](Coordinator& c) { return c.version(); }));
  return Answer(context, absl::OkStatus());
}

}  // namespace mccs
