// Both ends of gRPC with certificates, over loopback.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/operator.grpc.pb.h"
#include "tests/unit/eventually.h"
#include "tests/unit/trust/forged_certificates.h"
#include "tests/unit/trust/new_certificates.h"
#include "trust/grpc/credentials.h"
#include "trust/grpc/failed_handshakes.h"

namespace mccs {
namespace grpc_credentials_test {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

// Answers with the identity of the client.
class Echo final : public control::v1::Operator::Service {
 public:
  grpc::Status Version(grpc::ServerContext* context, const control::v1::VersionRequest* /*request*/,
                       control::v1::VersionReply* reply) override {
    ++calls;
    const std::optional<Identity> peer = PeerOf(*context->auth_context());
    reply->set_version(peer.has_value() ? ToString(*peer) : "unknown");
    return grpc::Status::OK;
  }
  std::atomic<int> calls = 0;
};

class GrpcCredentialsTest : public testing::Test {
 protected:
  void Serve(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.RegisterService(&echo_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void Serve(const TlsFiles& files, ClientCertificate clients = ClientCertificate::kRequired) {
    Serve(*TlsServerCredentials({.files = files,
                                 .clients = clients,
                                 .on_refused = [this](const RefusedPeer& client) { Add(client); },
                                 .clock = &clock_,
                                 .watch = {.refresh_ns = 10 * kNsPerMs}}));
  }
  void Add(const RefusedPeer& client) {
    const std::lock_guard lock(mutex_);
    refused_.push_back(absl::StrCat(RefusalName(client.reason), " ", client.subject));
  }
  std::vector<std::string> Refused() {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  // Files of a client that trusts the server and whose certificate is `made`.
  TlsFiles Files(const CertificateAndKey& made) const {
    return {.authority = cluster_.Path("ca"),
            .certificate = cluster_.Write("made.crt", made.certificate),
            .key = cluster_.Write("made.key", made.key)};
  }

  // The client's identity as the server sees it, or the error.
  std::string Ask(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    const auto stub = control::v1::Operator::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), credentials));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    control::v1::VersionReply reply;
    const grpc::Status status = stub->Version(&context, {}, &reply);
    if (status.ok()) return reply.version();
    const std::string refused = WhyServerRefused(status);
    return "error: " + (refused.empty() ? status.error_message() : refused);
  }
  std::string Ask(const TlsFiles& files) { return Ask(*TlsChannelCredentials(files, "mccs")); }
  static std::shared_ptr<grpc::experimental::CertificateProviderInterface> Unchecked(
      const TlsFiles& files) {
    const TlsTexts texts = *ReadTlsTexts(files);
    return std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
        std::vector<grpc::experimental::IdentityKeyCertPair>{{texts.key, texts.certificate}});
  }
  // As a client that checks neither its own files nor the server.
  std::string AskAnyway(const TlsFiles& files) {
    grpc::experimental::TlsChannelCredentialsOptions options;
    options.set_certificate_provider(Unchecked(files));
    options.watch_identity_key_cert_pairs();
    options.set_verify_server_certs(false);
    options.set_check_call_host(false);
    options.set_certificate_verifier(
        std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
    return Ask(grpc::experimental::TlsCredentials(options));
  }

  NewCertificates cluster_;
  const SystemWallClock clock_;
  std::mutex mutex_;  // guards refused_
  std::vector<std::string> refused_;
  Echo echo_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(GrpcCredentialsTest, BothEndsProveWhoTheyAre) {
  Serve(cluster_.Controller());
  EXPECT_EQ(Ask(cluster_.Host("h1")), "spiffe://mccs/host/h1");
  EXPECT_EQ(Ask(cluster_.Issue({"mccs", Identity::Kind::kOperator, "alice"})),
            "spiffe://mccs/operator/alice");
}

TEST_F(GrpcCredentialsTest, ClientsWithoutACertificateOfTheAuthorityAreRejected) {
  Serve(cluster_.Controller());
  NewCertificates other;
  TlsFiles foreign = other.Host("h1");
  foreign.authority = cluster_.Path("ca");
  EXPECT_THAT(AskAnyway(foreign), StartsWith("error: "));
  grpc::SslCredentialsOptions no_certificate;
  no_certificate.pem_root_certs = cluster_.authority().Pem()->certificate;
  EXPECT_THAT(Ask(grpc::SslCredentials(no_certificate)), StartsWith("error: "));
  EXPECT_THAT(Ask(grpc::InsecureChannelCredentials()), StartsWith("error: "));
  const int64_t now = cluster_.now_s();
  EXPECT_THAT(AskAnyway(cluster_.Issue({"mccs", Identity::Kind::kHost, "h2"},
                                       Validity{now - 100, now - 1})),
              StartsWith("error: "));
}

TEST_F(GrpcCredentialsTest, TheServerLearnsWhichCertificateIsRefused) {
  Serve(cluster_.Controller());
  const int64_t now = cluster_.now_s();
  const NewCertificates other("lab");
  const Identity foreign{"lab", Identity::Kind::kHost, "h1"};
  EXPECT_THAT(AskAnyway(Files(*other.authority().Issue(foreign, {now - 9, now + 99}))),
              StartsWith("error: "));
  EXPECT_THAT(Refused(), Contains("foreign CN=host h1, O=lab"));
  const Identity host{"mccs", Identity::Kind::kHost, "h2"};
  EXPECT_THAT(AskAnyway(cluster_.Issue(host, Validity{now - 9, now - 1})), StartsWith("error: "));
  EXPECT_THAT(Refused(), Contains("expired CN=host h2, O=mccs"));
  EXPECT_THAT(AskAnyway(cluster_.Issue(host, Validity{now + 90, now + 99})), StartsWith("error: "));
  const ForgedCertificate forged{.common_name = "forged", .validity = {now - 9, now + 99}};
  EXPECT_THAT(AskAnyway(Files(forged.Make(nullptr))), StartsWith("error: "));
  EXPECT_THAT(Refused(), Contains("foreign CN=forged"));
  const CertificateAndKey authority = *cluster_.authority().Pem();
  const ForgedCertificate server{.common_name = "server",
                                 .validity = {now - 9, now + 99},
                                 .extensions = {{NID_ext_key_usage, "serverAuth"}}};
  EXPECT_THAT(AskAnyway(Files(server.Make(&authority))), StartsWith("error: "));
  EXPECT_THAT(Refused(), Contains("other CN=server"));
  EXPECT_EQ(echo_.calls, 0);
  EXPECT_EQ(Ask(cluster_.Host("h1")), "spiffe://mccs/host/h1") << "others are not affected";
}

TEST_F(GrpcCredentialsTest, AnOptionalCertificateMustBeOfTheAuthority) {
  Serve(cluster_.Controller(), ClientCertificate::kOptional);
  const TlsFiles of_host = cluster_.Host("h1");
  EXPECT_EQ(Ask(TokenChannelCredentials(of_host.authority, "mccs", "token")), "unknown");
  const int64_t now = cluster_.now_s();
  const NewCertificates other;
  const Identity host{"mccs", Identity::Kind::kHost, "h1"};
  EXPECT_THAT(AskAnyway(Files(*other.authority().Issue(host, {now - 9, now + 99}))),
              StartsWith("error: "));
  EXPECT_THAT(
      AskAnyway(cluster_.Issue({"mccs", Identity::Kind::kHost, "h2"}, Validity{now - 9, now - 1})),
      StartsWith("error: "));
  EXPECT_EQ(echo_.calls, 1);
  EXPECT_EQ(Ask(of_host), "spiffe://mccs/host/h1");
}

TEST_F(GrpcCredentialsTest, AClientMaySendCertificatesBetweenItsOwnAndTheAuthoritys) {
  const int64_t now = cluster_.now_s();
  const Validity valid{now - 9, now + 99};
  const auto authority = [&](const std::string& name, const CertificateAndKey* issuer) {
    return ForgedCertificate{.common_name = name,
                             .validity = valid,
                             .extensions = ForgedCertificate::AuthorityExtensions()}
        .Make(issuer);
  };
  const CertificateAndKey root = authority("root", nullptr);
  const CertificateAndKey between = authority("between", &root);
  TlsFiles of_server = cluster_.Controller();
  of_server.authority =
      cluster_.Write("both", cluster_.authority().Pem()->certificate + root.certificate);
  Serve(of_server);
  CertificateAndKey client = ForgedCertificate{.validity = valid}.Make(&between);
  EXPECT_THAT(AskAnyway(Files(client)), StartsWith("error: "));
  client.certificate += between.certificate;
  EXPECT_EQ(AskAnyway(Files(client)), "spiffe://mccs/host/h1");
}

TEST_F(GrpcCredentialsTest, ANewAuthorityNeedsNoRestart) {
  Serve(cluster_.Controller());
  const NewCertificates next;
  const int64_t now = cluster_.now_s();
  const CertificateAndKey client =
      *next.authority().Issue({"mccs", Identity::Kind::kHost, "h1"}, {now - 9, now + 99});
  TlsFiles files = Files(client);
  files.authority = cluster_.Write("old", cluster_.authority().Pem()->certificate);
  EXPECT_THAT(AskAnyway(files), StartsWith("error: "));
  cluster_.Write("ca",
                 cluster_.authority().Pem()->certificate + next.authority().Pem()->certificate);
  EXPECT_EQ(AskAnyway(files), "spiffe://mccs/host/h1");
  cluster_.Write("ca", next.authority().Pem()->certificate);
  TlsFiles old = cluster_.Host("h2");
  old.authority = cluster_.Path("old");
  EXPECT_THAT(AskAnyway(old), StartsWith("error: "));
}

TEST_F(GrpcCredentialsTest, ANewCertificateIsSeenWithoutARestart) {
  const TlsFiles of_server = cluster_.Controller();
  Serve(of_server);
  const TlsFiles of_host = cluster_.Host("h1");
  ASSERT_EQ(Ask(of_host), "spiffe://mccs/host/h1");
  // The next authority replaces all files of both ends.
  const NewCertificates next;
  const Validity valid{cluster_.now_s() - 9, cluster_.now_s() + 99};
  const CertificateAndKey controller =
      *next.authority().Issue({"mccs", Identity::Kind::kController, ""}, valid);
  cluster_.Write("ca", next.authority().Pem()->certificate);
  std::ofstream(of_server.certificate) << controller.certificate;
  std::ofstream(of_server.key) << controller.key;
  const TlsFiles of_client =
      Files(*next.authority().Issue({"mccs", Identity::Kind::kHost, "h2"}, valid));
  EXPECT_TRUE(Eventually([&] { return Ask(of_client) == "spiffe://mccs/host/h2"; }));
}

TEST_F(GrpcCredentialsTest, FilesThatCannotBeUsedAreAnError) {
  TlsFiles files = cluster_.Host("h1");
  files.key = cluster_.Write("empty", "");
  EXPECT_THAT(std::string(TlsChannelCredentials(files, "mccs").status().message()),
              HasSubstr(files.key));
  EXPECT_THAT(
      std::string(TlsServerCredentials({.files = files, .clock = &clock_}).status().message()),
      HasSubstr(files.key));
}

TEST_F(GrpcCredentialsTest, WithoutItsAuthorityTheServerAcceptsNobody) {
  const TlsFiles of_host = cluster_.Host("h1");
  TlsFiles of_server = cluster_.Controller();
  of_server.authority = cluster_.Write("servers", cluster_.authority().Pem()->certificate);
  Serve(of_server);
  std::filesystem::remove(of_server.authority);  // before the first client
  EXPECT_THAT(Ask(of_host), StartsWith("error: "));
  EXPECT_EQ(echo_.calls, 0);
}

TEST_F(GrpcCredentialsTest, ClientsWithoutACertificateOrTlsAreReported) {
  const FailedHandshakes failed([this](const RefusedPeer& client) { Add(client); },
                                /*print=*/false);
  Serve(cluster_.Controller());
  const auto token = TokenChannelCredentials(cluster_.Path("ca"), "mccs", "token");
  EXPECT_THAT(Ask(token), StartsWith("error: "));
  EXPECT_THAT(Refused(), Contains("missing "));
  refused_.clear();
  EXPECT_THAT(Ask(grpc::InsecureChannelCredentials()), StartsWith("error: "));
  EXPECT_THAT(Refused(), Contains("missing "));
  EXPECT_EQ(echo_.calls, 0);
  server_->Shutdown();
  server_->Wait();
}

TEST_F(GrpcCredentialsTest, AClientTrustsTheControllerOnly) {
  Serve(cluster_.Host("h1"));  // issued by the authority, but no controller
  EXPECT_THAT(Ask(cluster_.Host("h2")),
              StartsWith("error: the server is refused: its certificate is of 'host h1'"));
}

TEST_F(GrpcCredentialsTest, AClientTrustsItsOwnAuthorityOnlyAndNamesTheOther) {
  NewCertificates other("lab");
  Serve(other.Controller());
  const std::string needed = "is not one of the authority in " + cluster_.Path("ca");
  EXPECT_THAT(Ask(cluster_.Host("h1")),
              AllOf(StartsWith("error: the server is refused: the certificate of "),
                    HasSubstr("'CN=the controller, O=lab'"), HasSubstr(needed),
                    HasSubstr("mccs-controller issue-certificate")));
  EXPECT_THAT(Ask(TokenChannelCredentials(cluster_.Path("ca"), "mccs", "token")),
              AllOf(HasSubstr("'CN=the controller, O=lab'"), HasSubstr(needed)));
}

TEST_F(GrpcCredentialsTest, AClientNamesTheServersExpiredCertificate) {
  const int64_t now = cluster_.now_s();
  grpc::experimental::TlsServerCredentialsOptions options(Unchecked(
      cluster_.Issue({"mccs", Identity::Kind::kController, ""}, Validity{now - 9, now - 1})));
  options.watch_identity_key_cert_pairs();
  Serve(grpc::experimental::TlsServerCredentials(options));
  EXPECT_THAT(Ask(cluster_.Host("h1")), AllOf(HasSubstr("'CN=the controller, O=mccs' expired at "),
                                              HasSubstr("mccs-controller issue-certificate")));
}

TEST_F(GrpcCredentialsTest, WithoutTlsNobodyIsKnown) {
  Serve(grpc::InsecureServerCredentials());
  EXPECT_EQ(Ask(grpc::InsecureChannelCredentials()), "unknown");
}

}  // namespace grpc_credentials_test
}  // namespace mccs
