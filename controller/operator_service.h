// The operators' gRPC API (proto/operator.proto), over operator_view.h (registry) and object_view.h
// (catalog).
//
// THREAD: gRPC's. Apply, Delete and Drain block for earlier changes, their checks and the store's
// disk; ListAudit blocks for the disk. Other calls do not block: they read the current objects
// during a change.
#ifndef MCCS_CONTROLLER_OPERATOR_SERVICE_H_
#define MCCS_CONTROLLER_OPERATOR_SERVICE_H_

#include "controller/agent_hub.h"
#include "controller/catalog.h"
#include "controller/shared_coordinator.h"
#include "proto/operator.grpc.pb.h"

namespace mccs {

// LIFETIME: all three outlive it; it outlives the server that serves it.
class OperatorService final : public control::Operator::CallbackService {
 public:
  OperatorService(SharedCoordinator* coordinator, Catalog* catalog, AgentHub* agents)
      : coordinator_(coordinator), catalog_(catalog), agents_(agents) {}

  grpc::ServerUnaryReactor* ListHosts(grpc::CallbackServerContext* context,
                                      const control::ListHostsRequest* request,
                                      control::ListHostsReply* reply) override;
  grpc::ServerUnaryReactor* ListCommunicators(grpc::CallbackServerContext* context,
                                              const control::ListCommunicatorsRequest* request,
                                              control::ListCommunicatorsReply* reply) override;
  grpc::ServerUnaryReactor* DescribeCommunicator(
      grpc::CallbackServerContext* context, const control::DescribeCommunicatorRequest* request,
      control::CommunicatorDetail* reply) override;
  grpc::ServerUnaryReactor* ExplainCommunicator(grpc::CallbackServerContext* context,
                                                const control::DescribeCommunicatorRequest* request,
                                                control::Explanation* reply) override;
  grpc::ServerUnaryReactor* ListWork(grpc::CallbackServerContext* context,
                                     const control::ListWorkRequest* request,
                                     control::ListWorkReply* reply) override;
  // The reply is sent when the daemon answers.
  grpc::ServerUnaryReactor* Dump(grpc::CallbackServerContext* context,
                                 const control::DumpRequest* request,
                                 control::DumpReply* reply) override;
  grpc::ServerUnaryReactor* Version(grpc::CallbackServerContext* context,
                                    const control::VersionRequest* request,
                                    control::VersionReply* reply) override;
  grpc::ServerUnaryReactor* Apply(grpc::CallbackServerContext* context,
                                  const control::ApplyRequest* request,
                                  control::ChangeReply* reply) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   const control::DeleteRequest* request,
                                   control::ChangeReply* reply) override;
  grpc::ServerUnaryReactor* ListObjects(grpc::CallbackServerContext* context,
                                        const control::ListObjectsRequest* request,
                                        control::ListObjectsReply* reply) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const control::DrainRequest* request,
                                  control::DrainReply* reply) override;
  grpc::ServerUnaryReactor* ListAudit(grpc::CallbackServerContext* context,
                                      const control::ListAuditRequest* request,
                                      control::ListAuditReply* reply) override;

 private:
  ClusterView View();
  control::ListWorkReply Work(const ObjectSet& objects);
  // The change and its effect on communicators, relative to `before`; for an applied change of
  // nothing, no effect.
  control::ChangeReply Show(const Catalog::Outcome& outcome, const ClusterView& before,
                            bool dry_run);
  absl::StatusOr<control::DrainReply> SetDrain(const control::DrainRequest& request,
                                               const Caller& caller);

  SharedCoordinator* const coordinator_;
  Catalog* const catalog_;
  AgentHub* const agents_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OPERATOR_SERVICE_H_
