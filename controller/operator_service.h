// The operators' API over gRPC (proto/operator.proto): what operator_view.h shows of the
// coordinator's registry.
//
// THREAD: gRPC's. Nothing blocks.
#ifndef MCCS_CONTROLLER_OPERATOR_SERVICE_H_
#define MCCS_CONTROLLER_OPERATOR_SERVICE_H_

#include "controller/shared_coordinator.h"
#include "proto/operator.grpc.pb.h"

namespace mccs {

// LIFETIME: `coordinator` outlives it; it outlives the server that serves it.
class OperatorService final : public control::Operator::CallbackService {
 public:
  explicit OperatorService(SharedCoordinator* coordinator) : coordinator_(coordinator) {}

  grpc::ServerUnaryReactor* ListHosts(grpc::CallbackServerContext* context,
                                      const control::ListHostsRequest* request,
                                      control::ListHostsReply* reply) override;
  grpc::ServerUnaryReactor* ListCommunicators(grpc::CallbackServerContext* context,
                                              const control::ListCommunicatorsRequest* request,
                                              control::ListCommunicatorsReply* reply) override;
  grpc::ServerUnaryReactor* DescribeCommunicator(
      grpc::CallbackServerContext* context, const control::DescribeCommunicatorRequest* request,
      control::CommunicatorDetail* reply) override;
  grpc::ServerUnaryReactor* Version(grpc::CallbackServerContext* context,
                                    const control::VersionRequest* request,
                                    control::VersionReply* reply) override;

 private:
  SharedCoordinator* const coordinator_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OPERATOR_SERVICE_H_
