#include "tests/sim/sim_security.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

constexpr size_t kHeaderBytes = sizeof(uint64_t) + 1;  // authority, length of the name

std::string CertificateOf(uint64_t authority, const std::string& host) {
  MCCS_CHECK(host.size() <= 255);
  std::string bytes(reinterpret_cast<const char*>(&authority), sizeof(authority));
  return absl::StrCat(bytes, std::string(1, static_cast<char>(host.size())), host);
}

class SimSecureConnection final : public SecureConnection {
 public:
  SimSecureConnection(std::unique_ptr<Connection> below, uint64_t authority,
                      const std::string& host, PeerSecurity::End end)
      : below_(std::move(below)),
        authority_(authority),
        is_server_(end == PeerSecurity::End::kServer),
        unsent_(CertificateOf(authority, host)) {}

  absl::StatusOr<size_t> Write(std::span<const iovec> pieces) override {
    MCCS_RETURN_IF_ERROR(Advance());
    if (handshaking()) return size_t{0};
    return below_->Write(pieces);
  }
  absl::StatusOr<size_t> Read(std::span<const iovec> pieces) override {
    MCCS_RETURN_IF_ERROR(Advance());
    if (handshaking()) return size_t{0};
    return below_->Read(pieces);
  }
  bool readable() const override { return below_->readable() || (MaySend() && !unsent_.empty()); }
  bool writable() const override {
    if (!refusal_.ok()) return true;
    if (!handshaking()) return below_->writable();
    return below_->readable() || (MaySend() && !unsent_.empty());
  }
  void SetWaker(Waker* waker) override { below_->SetWaker(waker); }
  void Mark(uint8_t dscp) override { below_->Mark(dscp); }
  Endpoint local() const override { return below_->local(); }
  Endpoint remote() const override { return below_->remote(); }

  const std::string& peer_host() const override { return peer_host_; }
  bool handshaking() const override { return peer_host_.empty() || !unsent_.empty(); }

 private:
  bool MaySend() const { return below_->writable() && (!is_server_ || !peer_host_.empty()); }

  absl::Status Advance() {
    MCCS_RETURN_IF_ERROR(refusal_);
    if (peer_host_.empty()) MCCS_RETURN_IF_ERROR(Receive());
    if (unsent_.empty() || !MaySend()) return absl::OkStatus();
    const iovec piece{unsent_.data(), unsent_.size()};
    MCCS_ASSIGN_OR_RETURN(const size_t sent, below_->Write({&piece, 1}));
    unsent_.erase(0, sent);
    return absl::OkStatus();
  }

  // Takes no byte after the certificate.
  absl::Status Receive() {
    while (below_->readable()) {
      const size_t wanted = received_.size() < kHeaderBytes
                                ? kHeaderBytes
                                : kHeaderBytes + static_cast<uint8_t>(received_[kHeaderBytes - 1]);
      std::string bytes(wanted - received_.size(), '\0');
      const iovec piece{bytes.data(), bytes.size()};
      MCCS_ASSIGN_OR_RETURN(const size_t got, below_->Read({&piece, 1}));
      if (got == 0) break;
      received_.append(bytes, 0, got);
      if (received_.size() == kHeaderBytes) MCCS_RETURN_IF_ERROR(CheckAuthority());
      const size_t length =
          received_.size() < kHeaderBytes ? 0 : static_cast<uint8_t>(received_[kHeaderBytes - 1]);
      if (length == 0 || received_.size() < kHeaderBytes + length) continue;
      peer_host_ = received_.substr(kHeaderBytes);
      break;
    }
    return absl::OkStatus();
  }

  absl::Status CheckAuthority() {
    uint64_t authority;
    std::memcpy(&authority, received_.data(), sizeof(authority));
    if (authority != authority_ || received_[kHeaderBytes - 1] == '\0') {
      refusal_ = absl::UnauthenticatedError("the peer's certificate is not one of this cluster");
    }
    return refusal_;
  }

  const std::unique_ptr<Connection> below_;
  const uint64_t authority_;
  const bool is_server_;
  std::string unsent_;    // of the own certificate
  std::string received_;  // of the peer's
  std::string peer_host_;
  absl::Status refusal_;
};

}  // namespace

std::unique_ptr<SecureConnection> SimSecurity::Secure(std::unique_ptr<Connection> connection,
                                                      End end) {
  return std::make_unique<SimSecureConnection>(std::move(connection), authority_, host_, end);
}

}  // namespace mccs
