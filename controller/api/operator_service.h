// The operators' gRPC API (proto/operator.proto), over operator_view.h (registry) and object_view.h
// (catalog).
//
// THREAD: gRPC's. Apply and Delete read and plan on a thread of their own. Drain blocks for earlier
// changes and the store's disk, ListAudit for the disk. Other calls do not block: they read the
// current objects during a change.
#ifndef MCCS_CONTROLLER_API_OPERATOR_SERVICE_H_
#define MCCS_CONTROLLER_API_OPERATOR_SERVICE_H_

#include "controller/api/access.h"
#include "controller/api/agent_hub.h"
#include "controller/api/change_queue.h"
#include "controller/coordinator/coordinator.h"
#include "controller/state/catalog.h"
#include "proto/operator.grpc.pb.h"

namespace mccs {

// LIFETIME: all four outlive it; it outlives the server that serves it.
class OperatorService final : public control::v1::Operator::CallbackService {
 public:
  OperatorService(SharedCoordinator* coordinator, Catalog* catalog, AgentHub* agents,
                  const Access* access)
      : coordinator_(coordinator), catalog_(catalog), agents_(agents), access_(access) {}

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* ListHosts(Context* context, const control::v1::ListHostsRequest* request,
                     control::v1::ListHostsReply* reply) override;
  Reactor* ListCommunicators(Context* context, const control::v1::ListCommunicatorsRequest* request,
                             control::v1::ListCommunicatorsReply* reply) override;
  Reactor* DescribeCommunicator(Context* context,
                                const control::v1::DescribeCommunicatorRequest* request,
                                control::v1::CommunicatorDetail* reply) override;
  Reactor* ExplainCommunicator(Context* context,
                               const control::v1::DescribeCommunicatorRequest* request,
                               control::v1::Explanation* reply) override;
  Reactor* ListWork(Context* context, const control::v1::ListWorkRequest* request,
                    control::v1::ListWorkReply* reply) override;
  // The reply is sent when the daemon answers.
  Reactor* Dump(Context* context, const control::v1::DumpRequest* request,
                control::v1::DumpReply* reply) override;
  // The reply is sent when the trace has ended on all hosts. If the caller leaves, the trace ends.
  Reactor* TraceCommunicator(Context* context, const control::v1::TraceRequest* request,
                             control::v1::TraceReply* reply) override;
  Reactor* Version(Context* context, const control::v1::VersionRequest* request,
                   control::v1::VersionReply* reply) override;
  Reactor* Apply(Context* context, const control::v1::ApplyRequest* request,
                 control::v1::ChangeReply* reply) override;
  Reactor* Delete(Context* context, const control::v1::DeleteRequest* request,
                  control::v1::ChangeReply* reply) override;
  Reactor* ListObjects(Context* context, const control::v1::ListObjectsRequest* request,
                       control::v1::ListObjectsReply* reply) override;
  Reactor* Drain(Context* context, const control::v1::DrainRequest* request,
                 control::v1::DrainReply* reply) override;
  Reactor* ListAudit(Context* context, const control::v1::ListAuditRequest* request,
                     control::v1::ListAuditReply* reply) override;

  // Ends the calls that wait for their change. Call before the server shuts down.
  void Stop() { changes_.Stop(); }

 private:
  // Ends the call of a client without a role; null: it has one, and every role may read.
  Reactor* RejectStranger(Context* context) const;
  // Answers the call of `caller` with the result of `change`, later, on the thread of changes_.
  Reactor* Queue(Context* context, const Caller& caller, const char* action, bool dry_run,
                 std::function<absl::Status()> change);
  ClusterView View();
  control::v1::ListWorkReply Work(const ObjectSet& objects);
  // The change and its effect on communicators, relative to `before`; for an applied change of
  // nothing, no effect.
  control::v1::ChangeReply Show(const Catalog::Outcome& outcome, const ClusterView& before,
                                bool dry_run);
  absl::StatusOr<control::v1::DrainReply> SetDrain(const control::v1::DrainRequest& request,
                                                   const Caller& caller);

  SharedCoordinator* const coordinator_;
  Catalog* const catalog_;
  AgentHub* const agents_;
  const Access* const access_;
  ChangeQueue changes_;  // last: its changes use the others
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_OPERATOR_SERVICE_H_
