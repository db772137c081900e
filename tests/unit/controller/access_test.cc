// Calls to the controller over gRPC with certificates.
#include "controller/api/access.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "controller/api/change_queue.h"
#include "controller/api/server.h"
#include "controller/store/memory_store.h"
#include "proto/agent.grpc.pb.h"
#include "proto/operator.grpc.pb.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/eventually.h"
#include "tests/unit/objects/documents.h"
#include "tests/unit/trust/forged_certificates.h"
#include "tests/unit/trust/new_certificates.h"
#include "tests/unit/trust/token_provider.h"
#include "trust/grpc/credentials.h"

namespace mccs {
namespace access_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AccessTest : public testing::Test {
 protected:
  AccessTest() {
    access_.SetOperators({FirstOperator(), {"eve", Role::kViewer, {}}});
    catalog_ = *Catalog::Open(&store_, &wall_clock_, log_.get());
    auto server = ControllerServer::Start("127.0.0.1:0", Tls(), &access_, &coordinator_,
                                          catalog_.get(), log_.get());
    MCCS_CHECK(server.ok());
    server_ = *std::move(server);
  }

  ServerTls Tls() { return {.files = cluster_.Controller(), .clock = &wall_clock_}; }
  std::shared_ptr<grpc::Channel> Connect(const TlsFiles& files) {
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                               *TlsChannelCredentials(files, "mccs"));
  }
  TlsFiles Operator(const std::string& name) {
    return cluster_.Issue({"mccs", Identity::Kind::kOperator, name});
  }
  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  }

  // A client with a certificate of the authority that its commands would not issue: with this URI;
  // empty: with none.
  std::shared_ptr<grpc::Channel> ConnectAsNamed(const std::string& uri) {
    ForgedCertificate named{.common_name = "unusual",
                            .validity = {cluster_.now_s() - 99, cluster_.now_s() + 99}};
    named.extensions.pop_back();
    if (!uri.empty())
      named.extensions.emplace_back(NID_subject_alt_name, absl::StrCat("URI:", uri));
    const CertificateAndKey authority = *cluster_.authority().Pem();
    const CertificateAndKey made = named.Make(&authority);
    grpc::experimental::TlsChannelCredentialsOptions options;  // that check no server
    options.set_verify_server_certs(false);
    options.set_check_call_host(false);
    options.set_certificate_verifier(
        std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
    options.set_certificate_provider(
        std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
            std::vector<grpc::experimental::IdentityKeyCertPair>{{made.key, made.certificate}}));
    options.watch_identity_key_cert_pairs();
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                               grpc::experimental::TlsCredentials(options));
  }
  // Empty: the call was answered.
  std::string WhyNoList(const TlsFiles& files) {
    grpc::ClientContext context;
    SetDeadline(&context);
    control::v1::ListHostsReply reply;
    return control::v1::Operator::NewStub(Connect(files))
        ->ListHosts(&context, {}, &reply)
        .error_message();
  }
  std::string WhyNoChange(const TlsFiles& files) { return WhyNoChangeOn(Connect(files)); }
  static std::string WhyNoChangeOn(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    SetDeadline(&context);
    control::v1::ApplyRequest request;
    request.mutable_caller()->set_user("somebody@else");
    request.add_files()->set_text(TenantDocument("a", 1));
    control::v1::ChangeReply reply;
    return control::v1::Operator::NewStub(channel)
        ->Apply(&context, request, &reply)
        .error_message();
  }
  // Registers as `host`, and returns the reason why the controller ends the stream; empty: it has
  // registered.
  std::string WhyNotRegistered(const TlsFiles& files, const std::string& host) {
    return WhyNotRegisteredOn(Connect(files), host);
  }
  static std::string WhyNotRegisteredOn(const std::shared_ptr<grpc::Channel>& channel,
                                        const std::string& host) {
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto stream = agent::v1::AgentHub::NewStub(channel)->Attach(&context);
    stream->Write(Registration(MakeHost(host)));
    agent::v1::ToAgent reply;
    if (stream->Read(&reply) && reply.has_registered()) {
      context.TryCancel();
      return "";
    }
    return stream->Finish().error_message();
  }

  // Opens an agent's stream, sends nothing, and returns the reason why the controller ends it.
  static std::string WhyNoStream(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto stream = agent::v1::AgentHub::NewStub(channel)->Attach(&context);
    return stream->Finish().error_message();
  }
  // Messages of the refusals since the last call.
  std::vector<std::string> Refused() {
    const std::lock_guard lock(mutex_);
    return std::exchange(refused_, {});
  }
  // The same, which must be `message`, what the client was told.
  std::string Refused(const std::string& message) {
    EXPECT_THAT(Refused(), ElementsAre(message));
    return message;
  }
  // Nothing: it is not listed.
  std::optional<HostState> StateOf(const std::string& host) {
    return coordinator_.With([&](Coordinator& c) -> std::optional<HostState> {
      const auto known = c.registry().hosts().find(host);
      if (known == c.registry().hosts().end()) return std::nullopt;
      return known->second.state;
    });
  }

  NewCertificates cluster_;
  SystemClock clock_;
  SystemWallClock wall_clock_;
  std::unique_ptr<Log> log_ = MakeNullLog();
  MemoryStore store_;
  std::unique_ptr<Catalog> catalog_;
  std::mutex mutex_;
  std::vector<std::string> refused_;  // guarded by mutex_
  const OnRefusedClient on_refused_ = [this](const RefusedPeer& client) {
    EXPECT_EQ(client.reason, RefusalReason::kUnauthorized);
    const std::lock_guard lock(mutex_);
    refused_.push_back(client.message);
  };
  Access access_{Access::Clients::kProven, "mccs", /*tokens=*/nullptr, &wall_clock_, on_refused_};
  SharedCoordinator coordinator_{{5 * kNsPerSec, "test"}, &clock_, log_.get()};
  std::unique_ptr<ControllerServer> server_;
};

TEST_F(AccessTest, RolesDecide) {
  EXPECT_EQ(WhyNoList(Operator("eve")), "");
  EXPECT_THAT(WhyNoChange(Operator("eve")), HasSubstr("operator eve is viewer"));
  EXPECT_EQ(WhyNoChange(Operator("admin")), "");
}

TEST_F(AccessTest, AnOperatorWithoutARoleDoesNothing) {
  EXPECT_THAT(WhyNoList(Operator("mallory")),
              AllOf(HasSubstr("mallory (spiffe://mccs/operator/mallory) has no role"),
                    HasSubstr("viewer, tenant-admin and admin")));
}

TEST_F(AccessTest, AHostIsNoOperator) {
  EXPECT_THAT(WhyNoList(cluster_.Host("h0")),
              AllOf(HasSubstr("spiffe://mccs/host/h0"), HasSubstr("spiffe://mccs/operator/NAME")));
  EXPECT_THAT(WhyNoChange(cluster_.Host("h0")), HasSubstr("spiffe://mccs/host/h0"));
}

// As the client does.
TEST_F(AccessTest, TheControllerLearnsWhomItRefuses) {
  EXPECT_EQ(WhyNoList(Operator("admin")), "");
  EXPECT_THAT(Refused(), IsEmpty());
  EXPECT_THAT(Refused(WhyNoList(Operator("mallory"))), HasSubstr("spiffe://mccs/operator/mallory"));
  EXPECT_THAT(Refused(WhyNoList(cluster_.Host("h0"))), HasSubstr("spiffe://mccs/host/h0"));
  EXPECT_THAT(Refused(WhyNoChangeOn(ConnectAsNamed("spiffe://other/operator/admin"))),
              AllOf(HasSubstr("spiffe://other/operator/admin"), HasSubstr("cluster is mccs")));
  EXPECT_THAT(Refused(WhyNotRegisteredOn(ConnectAsNamed("spiffe://other/host/h0"), "h0")),
              HasSubstr("spiffe://other/host/h0"));
  EXPECT_THAT(Refused(WhyNoChangeOn(ConnectAsNamed(""))),
              HasSubstr("certificate of 'unusual' has no SPIFFE id"));
}

TEST_F(AccessTest, NewRolesApplyToTheNextCall) {
  access_.SetOperators({{"mallory", Role::kViewer, {}}});
  EXPECT_EQ(WhyNoList(Operator("mallory")), "");
  EXPECT_THAT(WhyNoList(Operator("admin")), HasSubstr("has no role"));
}

TEST_F(AccessTest, TheAuditLogHasTheProvenIdentity) {
  ASSERT_EQ(WhyNoChange(Operator("admin")), "");
  EXPECT_EQ(catalog_->Audit(1)->front().user, "spiffe://mccs/operator/admin");
  EXPECT_TRUE(catalog_->Audit(1)->front().user_proven);
  WhyNoChange(Operator("eve"));
  EXPECT_EQ(catalog_->Audit(1)->front().user, "spiffe://mccs/operator/eve");
  EXPECT_TRUE(catalog_->Audit(1)->front().user_proven);
  EXPECT_THAT(catalog_->Audit(1)->front().outcome, HasSubstr("rejected"));
}

TEST_F(AccessTest, TheAuditLogHasChangesThatFindNoPlaceInTheQueue) {
  absl::Notification runs, may_end;
  catalog_->SetAdmission([&](const ObjectSet& /*before*/, const ObjectSet& /*after*/) {
    if (!runs.HasBeenNotified()) runs.Notify();
    may_end.WaitForNotification();
    return absl::OkStatus();
  });
  std::vector<std::thread> callers;
  const TlsFiles admin = Operator("admin");
  const auto call = [&] { callers.emplace_back([&] { WhyNoChange(admin); }); };
  call();
  runs.WaitForNotification();
  for (size_t i = 0; i <= ChangeQueue::kMaxOfOneOperator; ++i) call();
  EXPECT_TRUE(Eventually([&] { return !catalog_->Audit(1)->empty(); }));
  may_end.Notify();
  for (std::thread& each : callers) each.join();
  const std::vector<AuditEntry> entries = *catalog_->Audit(100);
  ASSERT_FALSE(entries.empty());
  EXPECT_THAT(entries.back().outcome, HasSubstr("rejected: "));
  EXPECT_EQ(entries.back().user, "spiffe://mccs/operator/admin");
}

TEST_F(AccessTest, OnlyAHostRegistersAsItself) {
  EXPECT_EQ(WhyNotRegistered(cluster_.Host("h0"), "h0"), "");
  EXPECT_THAT(WhyNotRegistered(cluster_.Host("h1"), "h0"),
              AllOf(HasSubstr("certificate is of spiffe://mccs/host/h1"),
                    HasSubstr("registers as host h0"), HasSubstr("spiffe://mccs/host/h0")));
  EXPECT_THAT(WhyNotRegistered(Operator("admin"), "h0"),
              HasSubstr("certificate is of spiffe://mccs/operator/admin"));
}

// It needs no message for that, which may have 64 MiB.
TEST_F(AccessTest, AClientThatIsNoHostGetsNoAgentStream) {
  EXPECT_THAT(WhyNoStream(Connect(Operator("admin"))),
              AllOf(HasSubstr("certificate is of spiffe://mccs/operator/admin"),
                    HasSubstr("spiffe://mccs/host/NAME"), HasSubstr("issue-certificate")));
  EXPECT_THAT(WhyNoStream(Connect(cluster_.Issue({"mccs", Identity::Kind::kController, ""}))),
              HasSubstr("certificate is of spiffe://mccs/controller"));
}

TEST_F(AccessTest, NothingIsRecordedOfARegistrationWithoutTheHostsCertificate) {
  ASSERT_EQ(WhyNotRegistered(cluster_.Host("h0"), "h0"), "");
  ASSERT_TRUE(Eventually([&] { return StateOf("h0") == HostState::kLost; }));
  for (int i = 0; i < 20; ++i) {
    EXPECT_NE(WhyNotRegistered(cluster_.Host("h1"), absl::StrCat("x", i)), "");
    EXPECT_NE(WhyNotRegistered(Operator("eve"), absl::StrCat("y", i)), "");
  }
  EXPECT_NE(WhyNotRegistered(cluster_.Host("h1"), "h0"), "");
  EXPECT_EQ(StateOf("h0"), HostState::kLost);
  coordinator_.With([](Coordinator& c) {
    EXPECT_EQ(c.registry().hosts().size(), 1u);
    EXPECT_TRUE(c.state().rejected.empty());
    EXPECT_TRUE(c.TakeEvents().empty());
  });
}

// An operator sees hosts of the cluster that are rejected for another reason.
TEST_F(AccessTest, ARejectedHostOfTheClusterIsListed) {
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto stream = agent::v1::AgentHub::NewStub(Connect(cluster_.Host("h0")))->Attach(&context);
  agent::v1::FromAgent registration = Registration(MakeHost("h0"));
  registration.mutable_registration()->set_protocol(99);
  stream->Write(registration);
  EXPECT_THAT(stream->Finish().error_message(), HasSubstr("install the same release"));
  EXPECT_EQ(StateOf("h0"), HostState::kRejected);
}

// A controller that also accepts tokens.
class TokenAccessTest : public AccessTest {
 protected:
  TokenAccessTest() {
    auto tokens = TokenVerifier::Make({.issuer = TokenProvider::kIssuer,
                                       .audience = "mccs",
                                       .keys = cluster_.Write("jwks.json", provider_.KeySet())});
    MCCS_CHECK(tokens.ok());
    with_tokens_ = std::make_unique<Access>(Access::Clients::kProven, "mccs", *std::move(tokens),
                                            &wall_clock_, on_refused_);
    with_tokens_->SetOperators({{.name = "admin", .role = Role::kAdmin},
                                {.name = "alice", .role = Role::kAdmin, .by_token = true}});
    auto server = ControllerServer::Start("127.0.0.1:0", Tls(), with_tokens_.get(), &coordinator_,
                                          catalog_.get(), log_.get());
    MCCS_CHECK(server.ok());
    server_ = *std::move(server);
  }

  // Empty: the change was made.
  std::string WhyNoChangeBy(const std::string& token) {
    return WhyNoChangeOn(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                            TokenChannelCredentials(cluster_.Path("ca"), "mccs", token)));
  }
  std::string TokenOf(const std::string& name) {
    return provider_.Sign(TokenProvider::Claims(name, cluster_.now_s()));
  }

  const TokenProvider provider_{TokenProvider::KeyKind::kEc};
  std::unique_ptr<Access> with_tokens_;
};

TEST_F(TokenAccessTest, ATokenTakesThePlaceOfACertificate) {
  EXPECT_EQ(WhyNoChangeBy(TokenOf("alice")), "");
  EXPECT_EQ(catalog_->Audit(1)->front().user, "token of alice by https://login.example.com");
  EXPECT_TRUE(catalog_->Audit(1)->front().user_proven);
  EXPECT_EQ(WhyNoChange(Operator("admin")), "");
}

// The provider may let people choose their names.
TEST_F(TokenAccessTest, ANameInATokenIsNotOneInACertificate) {
  EXPECT_THAT(WhyNoChangeBy(TokenOf("admin")),
              HasSubstr("admin (token of admin by https://login.example.com) has no role"));
  EXPECT_THAT(WhyNoChange(Operator("alice")),
              HasSubstr("alice (spiffe://mccs/operator/alice) has no role"));
}

TEST_F(TokenAccessTest, AFalseTokenOpensNothing) {
  const TokenProvider stranger(TokenProvider::KeyKind::kEc);
  EXPECT_THAT(WhyNoChangeBy(stranger.Sign(TokenProvider::Claims("alice", cluster_.now_s()))),
              HasSubstr("no key in"));
  EXPECT_THAT(WhyNoChangeBy("rubbish"), HasSubstr("no signed JSON Web Token"));
  EXPECT_THAT(Refused(),
              ElementsAre(HasSubstr("no key in"), HasSubstr("no signed JSON Web Token")));
}

// It could hold as much memory as it has calls otherwise: a message may be large.
TEST_F(TokenAccessTest, ACallWithoutACertificateOrTokenEndsBeforeItsMessage) {
  grpc::GenericStub stub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                          TokenChannelCredentials(cluster_.Path("ca"), "mccs", "rubbish")));
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  SetDeadline(&context);
  void* tag = nullptr;
  bool ok = false;
  grpc::Status status;
  const auto stream = stub.PrepareCall(&context, "/mccs.control.v1.Operator/Apply", &queue);
  stream->StartCall(&tag);
  queue.Next(&tag, &ok);
  stream->Finish(&status, &tag);  // No message was sent.
  queue.Next(&tag, &ok);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("no signed JSON Web Token"));
}

TEST_F(TokenAccessTest, ATokenRegistersNoHost) {
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                          TokenChannelCredentials(cluster_.Path("ca"), "mccs", TokenOf("alice")));
  EXPECT_THAT(WhyNotRegisteredOn(channel, "h0"), HasSubstr("no SPIFFE id"));
  EXPECT_THAT(WhyNoStream(channel), HasSubstr("no SPIFFE id"));
  EXPECT_EQ(StateOf("h0"), std::nullopt);
}

TEST_F(AccessTest, AControllerWithoutTokensDemandsACertificate) {
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                          TokenChannelCredentials(cluster_.Path("ca"), "mccs", "a.b.c"));
  EXPECT_NE(WhyNoChangeOn(channel), "");
}

}  // namespace access_test
}  // namespace mccs
