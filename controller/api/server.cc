#include "controller/api/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "controller/api/agent_hub.h"
#include "controller/api/operator_service.h"
#include "proto/message_limits.h"

namespace mccs {
namespace {

// How long a stop waits for calls to end; agents' streams never end by themselves.
constexpr auto kStopTimeout = std::chrono::milliseconds(100);

// gRPC's health and reflection plugins must be enabled before the first server is built.
void PrepareGrpcOnce() {
  static const bool prepared = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    // gRPC locks absl mutexes for each message. Distributions build absl with its search for
    // deadlocks, which takes 7 % of the controller's time.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    return true;
  }();
  (void)prepared;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsOf(ServerTls tls,
                                                                       bool accepts_tokens) {
  if (tls.files.empty()) return grpc::InsecureServerCredentials();
  tls.clients = accepts_tokens ? ClientCertificate::kOptional : ClientCertificate::kRequired;
  return TlsServerCredentials(tls);
}

}  // namespace

struct ControllerServer::Impl {
  Impl(SharedCoordinator* coordinator, Catalog* catalog, const Access* access)
      : hub(coordinator, access), operators(coordinator, catalog, &hub, access) {}

  AgentHub hub;
  OperatorService operators;
  int port = 0;
  std::unique_ptr<grpc::Server> server;  // last: destroyed before the services
};

ControllerServer::ControllerServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<ControllerServer>> ControllerServer::Start(
    const std::string& address, const ServerTls& tls, const Access* access,
    SharedCoordinator* coordinator, Catalog* catalog) {
  PrepareGrpcOnce();
  auto impl = std::make_unique<Impl>(coordinator, catalog, access);
  grpc::ServerBuilder builder;
  // With SO_REUSEPORT, two controllers could share a port, and each would get some agents.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // To estimate the bandwidth, gRPC would send a ping for each small message that it reads.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  MCCS_ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(tls, access->accepts_tokens()));
  builder.AddListeningPort(address, credentials, &impl->port);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.RegisterService(&impl->hub);
  builder.RegisterService(&impl->operators);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address,
                     ": it is in use or not an address of this machine; stop the other program, or "
                     "choose another address with --listen ADDRESS:PORT"));
  }
  return std::unique_ptr<ControllerServer>(new ControllerServer(std::move(impl)));
}

ControllerServer::~ControllerServer() {
  impl_->hub.FailRequests();  // Calls that wait for a daemon would block the server.
  impl_->server->Shutdown(std::chrono::system_clock::now() + kStopTimeout);
  impl_->server->Wait();
}

int ControllerServer::port() const { return impl_->port; }

void ControllerServer::Tick() { impl_->hub.Tick(); }

}  // namespace mccs
