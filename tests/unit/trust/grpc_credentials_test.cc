// Both ends of gRPC with certificates, over loopback.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "proto/operator.grpc.pb.h"
#include "tests/unit/trust/new_certificates.h"
#include "trust/grpc/credentials.h"

namespace mccs {
namespace grpc_credentials_test {

using testing::StartsWith;

// Answers with the identity of the client.
class Echo final : public control::v1::Operator::Service {
 public:
  grpc::Status Version(grpc::ServerContext* context, const control::v1::VersionRequest* /*request*/,
                       control::v1::VersionReply* reply) override {
    const std::optional<Identity> peer = PeerOf(*context->auth_context());
    reply->set_version(peer.has_value() ? ToString(*peer) : "unknown");
    return grpc::Status::OK;
  }
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
  void Serve(const TlsFiles& files) { Serve(TlsServerCredentials(files)); }

  // The client's identity as the server sees it, or the error.
  std::string Ask(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    const auto stub = control::v1::Operator::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), credentials));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    control::v1::VersionReply reply;
    const grpc::Status status = stub->Version(&context, {}, &reply);
    return status.ok() ? reply.version() : "error: " + status.error_message();
  }
  std::string Ask(const TlsFiles& files) { return Ask(TlsChannelCredentials(files, "mccs")); }

  NewCertificates cluster_;
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
  EXPECT_THAT(Ask(foreign), StartsWith("error: "));
  grpc::SslCredentialsOptions no_certificate;
  no_certificate.pem_root_certs = cluster_.authority().Pem()->certificate;
  EXPECT_THAT(Ask(grpc::SslCredentials(no_certificate)), StartsWith("error: "));
  EXPECT_THAT(Ask(grpc::InsecureChannelCredentials()), StartsWith("error: "));
  const int64_t now = cluster_.now_s();
  EXPECT_THAT(
      Ask(cluster_.Issue({"mccs", Identity::Kind::kHost, "h2"}, Validity{now - 100, now - 1})),
      StartsWith("error: "));
}

TEST_F(GrpcCredentialsTest, AClientTrustsTheControllerOnly) {
  Serve(cluster_.Host("h1"));  // issued by the authority, but no controller
  EXPECT_THAT(Ask(cluster_.Host("h2")), StartsWith("error: "));
}

TEST_F(GrpcCredentialsTest, AClientTrustsItsOwnAuthorityOnly) {
  NewCertificates other;
  Serve(other.Controller());
  EXPECT_THAT(Ask(cluster_.Host("h1")), StartsWith("error: "));
}

TEST_F(GrpcCredentialsTest, WithoutTlsNobodyIsKnown) {
  Serve(grpc::InsecureServerCredentials());
  EXPECT_EQ(Ask(grpc::InsecureChannelCredentials()), "unknown");
}

}  // namespace grpc_credentials_test
}  // namespace mccs
