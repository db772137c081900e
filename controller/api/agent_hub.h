// gRPC server of the agents' streams (proto/agent.proto). It only carries messages between gRPC and
// the coordinator, in both directions.
//
// THREAD: gRPC's callbacks and Tick()'s caller. Nothing blocks.
#ifndef MCCS_CONTROLLER_API_AGENT_HUB_H_
#define MCCS_CONTROLLER_API_AGENT_HUB_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "controller/api/access.h"
#include "controller/coordinator/coordinator.h"
#include "proto/agent.grpc.pb.h"

namespace mccs {

class AgentStream;

// As gRPC sends it: the codes have the same numbers.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// LIFETIME: `coordinator` and `access` outlive it; it outlives the server that serves it.
class AgentHub final : public agent::v1::AgentHub::CallbackService {
 public:
  AgentHub(SharedCoordinator* coordinator, const Access* access)
      : coordinator_(coordinator), access_(access) {}

  grpc::ServerBidiReactor<agent::v1::FromAgent, agent::v1::ToAgent>* Attach(
      grpc::CallbackServerContext* context) override;

  // Calls Coordinator::Tick and sends the messages that it produced.
  void Tick();
  // Sends the messages in the coordinator's outbox.
  void Flush();

  // Asks the daemon of `host` for its state. `answer` is called once, from any thread, possibly
  // before this returns.
  void RequestState(const std::string& host, StateCallback answer);
  // Asks the daemons of a communicator to trace its next operations. `id`: a unique prefix of its
  // id. `answer` is called as above. Returns the number of the request; 0: it is answered.
  uint64_t RequestTrace(const std::string& id, uint32_t operations, const TraceCallback& answer);
  // Ends the trace, if it still runs; its answer is an error.
  void CancelTrace(uint64_t request_id);
  // Answers all open and all later requests with an error: the controller stops.
  void FailRequests();

 private:
  friend class AgentStream;

  void Handle(AgentKey key, const grpc::AuthContext& client, agent::v1::FromAgent message);
  void OnStreamClosed(AgentKey key, const std::string& why);
  // Runs `act`, then sends the messages that the coordinator produced.
  void With(absl::FunctionRef<void(Coordinator&)> act);
  // Returns the streams that have something to write.
  std::vector<std::shared_ptr<AgentStream>> Queue(std::vector<Outgoing> outbox);
  void DeliverAnswers();
  void Remove(AgentKey key);

  SharedCoordinator* const coordinator_;
  const Access* const access_;
  std::mutex mutex_;  // guards all members below
  std::map<AgentKey, std::shared_ptr<AgentStream>> streams_;
  uint64_t last_key_ = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_AGENT_HUB_H_
