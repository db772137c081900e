#include "trust/grpc/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {
namespace {

using grpc::experimental::TlsCustomVerificationCheckRequest;

// How often gRPC looks for new files.
constexpr unsigned kRefreshSeconds = 5;

std::string ToStd(grpc::string_ref text) { return std::string(text.data(), text.size()); }

class ControllerVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit ControllerVerifier(std::string domain)
      : controller_{std::move(domain), Identity::Kind::kController, ""} {}
  ~ControllerVerifier() override = default;

  bool Verify(TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* result) override {
    const std::vector<grpc::string_ref> uris = request->uri_names();
    const std::string uri = uris.size() == 1 ? ToStd(uris.front()) : "";
    const absl::StatusOr<Identity> peer = ParseIdentity(uri);
    if (peer.ok() && *peer == controller_) return true;
    *result = grpc::Status(
        grpc::StatusCode::UNAUTHENTICATED,
        absl::StrCat("the server's certificate is of '", ToStd(request->common_name()), "' (",
                     uri.empty() ? "no SPIFFE id" : uri, "), not of the controller ",
                     ToString(controller_), ": check the controller's address and certificate"));
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const Identity controller_;
};

// gRPC's own verification would not report the certificate that it refuses. It has checked that the
// client has the certificate's key, and serves no call before Verify has accepted.
class ClientVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit ClientVerifier(const ServerTls& tls)
      : certificates_(tls.files.authority),
        clients_(tls.clients),
        on_refused_(tls.on_refused),
        clock_(*tls.clock) {}
  ~ClientVerifier() override = default;

  bool Verify(TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* result) override {
    const std::string certificate = ToStd(request->peer_cert());
    if (certificate.empty() && clients_ == ClientCertificate::kOptional) return true;
    const std::optional<RefusedClient> refused = certificates_.Check(
        certificate, ToStd(request->peer_cert_full_chain()), clock_.Now() / kNsPerSec);
    if (!refused.has_value()) return true;
    on_refused_(*refused);
    *result = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, refused->message);
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  ClientCertificates certificates_;
  const ClientCertificate clients_;
  const OnRefusedClient on_refused_;
  const WallClock& clock_;
};

std::shared_ptr<grpc::experimental::FileWatcherCertificateProvider> Watch(const TlsFiles& files) {
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.authority, kRefreshSeconds);
}

std::shared_ptr<grpc::ChannelCredentials> ToController(
    grpc::experimental::TlsChannelCredentialsOptions options, const std::string& domain) {
  options.set_verify_server_certs(true);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<ControllerVerifier>(domain));
  return grpc::experimental::TlsCredentials(options);
}

void WatchBoth(grpc::experimental::TlsCredentialsOptions* options) {
  options->watch_root_certs();
  options->watch_identity_key_cert_pairs();
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const ServerTls& tls) {
  MCCS_CHECK(tls.clock != nullptr);
  grpc::experimental::TlsServerCredentialsOptions options(Watch(tls.files));
  WatchBoth(&options);
  // ClientVerifier verifies. gRPC itself refuses clients without a certificate where one is needed.
  options.set_cert_request_type(
      tls.clients == ClientCertificate::kRequired
          ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY
          : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<ClientVerifier>(tls));
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> TlsChannelCredentials(const TlsFiles& files,
                                                                const std::string& domain) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Watch(files));
  WatchBoth(&options);
  return ToController(std::move(options), domain);
}

std::shared_ptr<grpc::ChannelCredentials> TokenChannelCredentials(const std::string& authority,
                                                                  const std::string& domain,
                                                                  const std::string& token) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(authority,
                                                                           kRefreshSeconds));
  options.watch_root_certs();
  return grpc::CompositeChannelCredentials(ToController(std::move(options), domain),
                                           grpc::AccessTokenCredentials(token));
}

std::optional<Identity> PeerOf(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> uris = context.FindPropertyValues("peer_spiffe_id");
  if (!context.IsPeerAuthenticated() || uris.size() != 1) return std::nullopt;
  absl::StatusOr<Identity> peer = ParseIdentity(ToStd(uris.front()));
  return peer.ok() ? std::optional(*std::move(peer)) : std::nullopt;
}

}  // namespace mccs
