#include "trust/grpc/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "trust/grpc/tls_copy.h"

namespace mccs {
namespace {

using grpc::experimental::TlsCustomVerificationCheckRequest;

// How often gRPC looks for a new copy.
constexpr unsigned kRefreshSeconds = 1;

// gRPC 1.51 offers TLS 1.2 beside 1.3, and has no call to change that. It takes the cipher suites
// of TLS 1.2 alone from this variable, and needs one. Neither side can use this one, since it needs
// a key that both know before. Before main, because there is no other thread yet.
[[maybe_unused]] const int only_tls_1_3 =
    setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES128-GCM-SHA256", /*overwrite=*/1);

// Begins the verifier's part of gRPC's error of a connection.
constexpr char kRefused[] = "the server is refused: ";

std::string ToStd(grpc::string_ref text) { return std::string(text.data(), text.size()); }

// gRPC's own verification would not report the certificate that it refuses. It has checked that the
// peer has the certificate's key, and sends or serves no call before Verify has accepted.
std::optional<RefusedPeer> CheckPeer(PeerCertificates& certificates,
                                     const TlsCustomVerificationCheckRequest& request,
                                     const WallClock& clock) {
  return certificates.Check(ToStd(request.peer_cert()), ToStd(request.peer_cert_full_chain()),
                            clock.Now() / kNsPerSec);
}

class ControllerVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  // `copy`: gRPC reads it as long as this exists; null: there is none.
  ControllerVerifier(const std::string& authority, std::string domain,
                     std::shared_ptr<const TlsCopy> copy)
      : certificates_(authority, PeerCertificates::Peers::kServers),
        controller_{std::move(domain), Identity::Kind::kController, ""},
        copy_(std::move(copy)) {}
  ~ControllerVerifier() override = default;

  bool Verify(TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* result) override {
    const std::string why = WhyRefused(*request);
    if (!why.empty())
      *result = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, absl::StrCat(kRefused, why));
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  // Empty: the server is the controller.
  std::string WhyRefused(TlsCustomVerificationCheckRequest& request) {
    const std::optional<RefusedPeer> refused = CheckPeer(certificates_, request, clock_);
    if (refused.has_value()) return refused->message;
    const std::vector<grpc::string_ref> uris = request.uri_names();
    const std::string uri = uris.size() == 1 ? ToStd(uris.front()) : "";
    const absl::StatusOr<Identity> peer = ParseIdentity(uri);
    if (peer.ok() && *peer == controller_) return "";
    return absl::StrCat("its certificate is of '", ToStd(request.common_name()), "' (",
                        uri.empty() ? "no SPIFFE id" : uri, "), not of the controller ",
                        ToString(controller_), ": check the controller's address and certificate");
  }

  PeerCertificates certificates_;
  const Identity controller_;
  const std::shared_ptr<const TlsCopy> copy_;
  const SystemWallClock clock_;
};

class ClientVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  ClientVerifier(const ServerTls& tls, std::shared_ptr<const TlsCopy> copy)
      : certificates_(tls.files.authority, PeerCertificates::Peers::kClients),
        clients_(tls.clients),
        on_refused_(tls.on_refused),
        copy_(std::move(copy)),
        clock_(*tls.clock) {}
  ~ClientVerifier() override = default;

  bool Verify(TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* result) override {
    if (request->peer_cert().empty() && clients_ == ClientCertificate::kOptional) return true;
    const std::optional<RefusedPeer> refused = CheckPeer(certificates_, *request, clock_);
    if (!refused.has_value()) return true;
    on_refused_(*refused);
    *result = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, refused->message);
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  PeerCertificates certificates_;
  const ClientCertificate clients_;
  const OnRefusedClient on_refused_;
  const std::shared_ptr<const TlsCopy> copy_;  // gRPC reads it as long as this exists
  const WallClock& clock_;
};

std::shared_ptr<grpc::experimental::CertificateProviderInterface> ProviderOf(const TlsCopy& copy) {
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      copy.path(), copy.path(), kRefreshSeconds);
}

std::shared_ptr<grpc::ChannelCredentials> ToController(
    grpc::experimental::TlsChannelCredentialsOptions options, const std::string& authority,
    const std::string& domain, std::shared_ptr<const TlsCopy> copy) {
  options.set_verify_server_certs(false);  // ControllerVerifier does
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<ControllerVerifier>(authority, domain,
                                                                                  std::move(copy)));
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsServerCredentials(
    const ServerTls& tls) {
  MCCS_CHECK(tls.clock != nullptr);
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<const TlsCopy> copy,
                        TlsCopy::Make(tls.files, *tls.clock, tls.watch));
  grpc::experimental::TlsServerCredentialsOptions options(ProviderOf(*copy));
  options.watch_identity_key_cert_pairs();
  // ClientVerifier verifies. gRPC itself refuses clients without a certificate where one is needed.
  options.set_cert_request_type(
      tls.clients == ClientCertificate::kRequired
          ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY
          : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<ClientVerifier>(tls,
                                                                              std::move(copy)));
  return grpc::experimental::TlsServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsChannelCredentials(
    const TlsFiles& files, const std::string& domain) {
  static const SystemWallClock clock;
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<const TlsCopy> copy, TlsCopy::Make(files, clock, {}));
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(ProviderOf(*copy));
  options.watch_identity_key_cert_pairs();
  return ToController(std::move(options), files.authority, domain, std::move(copy));
}

std::shared_ptr<grpc::ChannelCredentials> TokenChannelCredentials(const std::string& authority,
                                                                  const std::string& domain,
                                                                  const std::string& token) {
  return grpc::CompositeChannelCredentials(ToController({}, authority, domain, nullptr),
                                           grpc::AccessTokenCredentials(token));
}

std::string WhyServerRefused(const grpc::Status& status) {
  const std::string& all = status.error_message();
  const size_t begin = all.find(kRefused);
  return begin == all.npos ? "" : all.substr(begin);
}

std::optional<Identity> PeerOf(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> uris = context.FindPropertyValues("peer_spiffe_id");
  if (!context.IsPeerAuthenticated() || uris.size() != 1) return std::nullopt;
  absl::StatusOr<Identity> peer = ParseIdentity(ToStd(uris.front()));
  return peer.ok() ? std::optional(*std::move(peer)) : std::nullopt;
}

}  // namespace mccs
