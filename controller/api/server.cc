#include "controller/api/server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "controller/api/acceptor.h"
#include "controller/api/agent_hub.h"
#include "controller/api/operator_service.h"
#include "proto/message_limits.h"

namespace mccs {
namespace {

// How long a stop waits for calls to end; agents' streams never end by themselves.
constexpr auto kStopTimeout = std::chrono::milliseconds(100);

// How long a client's handshake may take. gRPC's own limit, two minutes, would let clients that
// send nothing hold connections.
constexpr int kHandshakeTimeoutMs = 10'000;
// A connection without a call is closed. Agents have a call as long as they are connected.
constexpr int kIdleTimeoutMs = 60'000;
// Calls of one connection at a time. An agent has one, mccsctl a few.
constexpr int kMaxCalls = 64;

// gRPC's health plugin must be enabled before the first server is built.
void PrepareGrpcOnce() {
  static const bool prepared = [] {
    grpc::EnableDefaultHealthCheckService(true);
    // gRPC locks absl mutexes for each message. Distributions build absl with its search for
    // deadlocks, which takes 7 % of the controller's time.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    return true;
  }();
  (void)prepared;
}

// Ends the calls of clients that nothing proves, before their messages are read.
class KnownClients final : public grpc::AuthMetadataProcessor {
 public:
  explicit KnownClients(const Access* access) : access_(access) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) override {
    return ToGrpc(access_->CheckIsKnown(*context, metadata));
  }

 private:
  const Access* const access_;
};

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsOf(ServerTls tls,
                                                                       const Access* access) {
  if (tls.files.empty()) return grpc::InsecureServerCredentials();
  tls.clients =
      access->accepts_tokens() ? ClientCertificate::kOptional : ClientCertificate::kRequired;
  MCCS_ASSIGN_OR_RETURN(auto credentials, TlsServerCredentials(tls));
  credentials->SetAuthMetadataProcessor(std::make_shared<KnownClients>(access));
  return credentials;
}

}  // namespace

struct ControllerServer::Impl {
  Impl(SharedCoordinator* coordinator, Catalog* catalog, const Access* access)
      : hub(coordinator, access), operators(coordinator, catalog, &hub, access) {}

  AgentHub hub;
  OperatorService operators;
  std::unique_ptr<grpc::Server> server;  // destroyed before the services
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections;  // of `server`
  std::unique_ptr<Acceptor> acceptor;  // last: gives no connection to what is destroyed
};

ControllerServer::ControllerServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<ControllerServer>> ControllerServer::Start(
    const std::string& address, const ServerTls& tls, const Access* access,
    SharedCoordinator* coordinator, Catalog* catalog, Log* log) {
  PrepareGrpcOnce();
  auto impl = std::make_unique<Impl>(coordinator, catalog, access);
  MCCS_ASSIGN_OR_RETURN(impl->acceptor, Acceptor::Listen(address, log));
  grpc::ServerBuilder builder;
  // To estimate the bandwidth, gRPC would send a ping for each small message that it reads.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCalls);
  MCCS_ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(tls, access));
  using Experimental = grpc::ServerBuilder::experimental_type;
  impl->connections = builder.experimental().AddExternalConnectionAcceptor(
      Experimental::ExternalConnectionType::FROM_FD, credentials);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.RegisterService(&impl->hub);
  builder.RegisterService(&impl->operators);
  impl->server = builder.BuildAndStart();
  MCCS_CHECK(impl->server != nullptr);
  impl->acceptor->Start([connections = impl->connections.get()](UniqueFd fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd.Release();
    connections->HandleNewConnection(&connection);
  });
  return std::unique_ptr<ControllerServer>(new ControllerServer(std::move(impl)));
}

ControllerServer::~ControllerServer() {
  impl_->acceptor.reset();
  impl_->operators.Stop();
  impl_->hub.FailRequests();  // Calls that wait for a daemon would block the server.
  impl_->server->Shutdown(std::chrono::system_clock::now() + kStopTimeout);
  impl_->server->Wait();
}

int ControllerServer::port() const { return impl_->acceptor->port(); }

void ControllerServer::Tick() { impl_->hub.Tick(); }

}  // namespace mccs
