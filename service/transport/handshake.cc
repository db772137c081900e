#include "service/transport/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs::wire {
namespace {

constexpr size_t kSideBytes = 16;
constexpr char kClientSide[kSideBytes] = "mccs client";
constexpr char kServerSide[kSideBytes] = "mccs server";

}  // namespace

std::array<uint8_t, kProofBytes> KeyedHash(std::span<const uint8_t> key,
                                           std::span<const uint8_t> text) {
  std::array<uint8_t, kProofBytes> hash;
  unsigned int length = 0;
  const uint8_t* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(),
                             text.size(), hash.data(), &length);
  MCCS_CHECK(done != nullptr && length == hash.size());
  return hash;
}

Proof MakeProof(const Secret& secret, ProofSide side, const PeerHello& hello,
                const Nonce& server_nonce) {
  std::array<uint8_t, kSideBytes + sizeof(PeerHello) + kNonceBytes> text;
  uint8_t* to = text.data();
  std::memcpy(to, side == ProofSide::kClient ? kClientSide : kServerSide, kSideBytes);
  std::memcpy(to + kSideBytes, &hello, sizeof(hello));
  std::memcpy(to + kSideBytes + sizeof(hello), server_nonce.data(), kNonceBytes);

  return KeyedHash(secret, text);
}

bool ProofsEqual(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace mccs::wire

namespace mccs {
namespace {

// Sends (receives) the rest of a message of `size` bytes, of which `done` are sent (received).
// Returns true when it is complete.
absl::StatusOr<bool> SendRest(Connection& connection, const void* message, size_t size,
                              size_t& done) {
  auto* from = static_cast<std::byte*>(const_cast<void*>(message));
  const iovec rest{.iov_base = from + done, .iov_len = size - done};
  MCCS_ASSIGN_OR_RETURN(const size_t bytes, connection.Write({&rest, 1}));
  done += bytes;
  return done == size;
}

absl::StatusOr<bool> ReceiveRest(Connection& connection, void* message, size_t size, size_t& done) {
  const iovec rest{.iov_base = static_cast<std::byte*>(message) + done, .iov_len = size - done};
  MCCS_ASSIGN_OR_RETURN(const size_t bytes, connection.Read({&rest, 1}));
  done += bytes;
  return done == size;
}

wire::PeerHello ToWire(const Preamble& preamble, Random& random) {
  wire::PeerHello hello{};
  hello.magic = wire::kPeerMagic;
  hello.version = wire::kPeerVersion;
  hello.purpose = static_cast<uint8_t>(preamble.purpose);
  hello.comm_id = preamble.comm_id.value();
  hello.epoch = preamble.epoch.value();
  hello.channel = preamble.channel.value();
  hello.from_host = preamble.from_host.value();
  hello.to_host = preamble.to_host.value();
  random.Fill(std::as_writable_bytes(std::span(hello.nonce)));
  return hello;
}

absl::StatusOr<Preamble> FromWire(const wire::PeerHello& hello) {
  const auto purpose = static_cast<ConnectionPurpose>(hello.purpose);
  const bool lane = purpose == ConnectionPurpose::kLane;
  if (!lane && purpose != ConnectionPurpose::kJoin && purpose != ConnectionPurpose::kMember) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer requests unknown purpose ", static_cast<int>(hello.purpose)));
  }
  const bool numbers =
      hello.epoch != 0 || hello.channel != 0 || hello.from_host != 0 || hello.to_host != 0;
  if (hello.channel < 0 || hello.from_host < 0 || hello.to_host < 0 || (!lane && numbers)) {
    return absl::InvalidArgumentError(
        "the peer's hello has an invalid epoch, channel or host index");
  }
  return Preamble{.purpose = purpose,
                  .comm_id = CommId(hello.comm_id),
                  .epoch = Epoch(hello.epoch),
                  .channel = ChannelId(hello.channel),
                  .from_host = HostIndex(hello.from_host),
                  .to_host = HostIndex(hello.to_host)};
}

// Whether this host makes only secure connections for this.
bool IsSecured(const Preamble& preamble, const PeerSecurity* security) {
  if (security == nullptr) return false;
  return preamble.purpose != ConnectionPurpose::kLane || security->secures_lanes();
}

std::string Printable(const void* data, size_t size) {
  std::string text;
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i)
    text += std::isprint(bytes[i]) ? static_cast<char>(bytes[i]) : '.';
  return text;
}

std::string ForeignProtocol(const void* data, size_t size) {
  return absl::StrCat("the peer does not speak the protocol of MCCS daemons: its first bytes are '",
                      Printable(data, size),
                      "'; it may be a rank with the real NCCL, or another program");
}

absl::Status WithPeer(const Connection& connection, std::string_view what,
                      const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat(std::string(what), " ", ToString(connection.remote()), ": ", status.message()));
}

}  // namespace

std::string ToString(const Preamble& preamble) {
  const std::string comm = absl::StrCat("communicator ", FormatCommId(preamble.comm_id));
  switch (preamble.purpose) {
    case ConnectionPurpose::kJoin:
      return absl::StrCat("join of ", comm);
    case ConnectionPurpose::kMember:
      return absl::StrCat("member of ", comm);
    case ConnectionPurpose::kLane:
      return absl::StrCat("lane of ", comm, ", epoch ", preamble.epoch.value(), ", channel ",
                          preamble.channel.value(), ", from host ", preamble.from_host.value(),
                          " to host ", preamble.to_host.value());
  }
  return "unknown purpose";
}

// ---- client -------------------------------------------------------------------------------------

ClientHandshake::ClientHandshake(std::unique_ptr<Connection> connection, const Preamble& preamble,
                                 const Secret& secret, Random& random, MonotonicNs deadline,
                                 PeerSecurity* security)
    : connection_(std::move(connection)),
      preamble_(preamble),
      secret_(secret),
      deadline_(deadline),
      security_(security),
      state_(IsSecured(preamble, security) ? State::kSendMarker : State::kSendHello),
      hello_(ToWire(preamble, random)) {}

void ClientHandshake::SetWaker(Waker* waker) {
  waker_ = waker;
  connection_->SetWaker(waker);
}

absl::StatusOr<std::unique_ptr<Connection>> ClientHandshake::Poll(MonotonicNs now) {
  while (state_ != State::kDone) {
    absl::StatusOr<bool> stepped = Step(now);
    if (!stepped.ok()) {
      absl::Status why =
          WithPeer(*connection_, ToString(preamble_) + ": handshake with", stepped.status());
      connection_.reset();
      return why;
    }
    opened_ |= *stepped || bytes_ > 0;
    if (!*stepped) return nullptr;
  }
  return std::move(connection_);
}

// Returns true when the state has advanced.
absl::StatusOr<bool> ClientHandshake::Step(MonotonicNs now) {
  if (now >= deadline_) {
    return absl::DeadlineExceededError(
        secured_ == nullptr && state_ != State::kAwaitChallenge
            ? "connect timed out; check that mccsd runs there and that no firewall blocks the port"
            : "timed out: no reply; check that mccsd runs there, and see its log");
  }
  switch (state_) {
    case State::kSendMarker: {
      MCCS_ASSIGN_OR_RETURN(const bool whole, SendMarker());
      if (!whole) return false;
      break;
    }
    case State::kSendHello: {
      if (!connection_->writable()) return false;
      MCCS_ASSIGN_OR_RETURN(bool whole, SendRest(*connection_, &hello_, sizeof(hello_), bytes_));
      if (!whole) return false;
      state_ = State::kAwaitChallenge;
      break;
    }
    case State::kAwaitChallenge: {
      if (!connection_->readable()) return false;
      MCCS_ASSIGN_OR_RETURN(bool whole,
                            ReceiveRest(*connection_, &challenge_, sizeof(challenge_), bytes_));
      if (!whole) return false;
      MCCS_RETURN_IF_ERROR(CheckChallenge());
      if (secured_ != nullptr) peer_host_ = secured_->peer_host();
      proof_ = wire::MakeProof(secret_, wire::ProofSide::kClient, hello_, challenge_.nonce);
      state_ = State::kSendProof;
      break;
    }
    case State::kSendProof: {
      MCCS_ASSIGN_OR_RETURN(bool whole,
                            SendRest(*connection_, proof_.data(), proof_.size(), bytes_));
      if (!whole) return false;
      state_ = State::kDone;
      break;
    }
    case State::kDone:
      break;
  }
  bytes_ = 0;
  return true;
}

absl::StatusOr<bool> ClientHandshake::SendMarker() {
  if (!connection_->writable()) return false;
  MCCS_ASSIGN_OR_RETURN(const bool whole, SendRest(*connection_, &wire::kSecureMagic,
                                                   sizeof(wire::kSecureMagic), bytes_));
  if (!whole) return false;
  std::unique_ptr<SecureConnection> secure =
      security_->Secure(std::move(connection_), PeerSecurity::End::kClient);
  secured_ = secure.get();
  connection_ = std::move(secure);
  connection_->SetWaker(waker_);
  state_ = State::kSendHello;
  return true;
}

absl::Status ClientHandshake::CheckChallenge() const {
  if (challenge_.magic != wire::kPeerMagic) {
    return absl::FailedPreconditionError(ForeignProtocol(&challenge_, sizeof(challenge_.magic)));
  }
  switch (challenge_.verdict) {
    case wire::PeerVerdict::kAccepted:
      break;
    case wire::PeerVerdict::kWrongVersion:
      return absl::FailedPreconditionError(absl::StrCat(
          "the peer has version ", challenge_.version, " of the daemons' protocol, this daemon ",
          wire::kPeerVersion, "; run the same release on all hosts"));
    case wire::PeerVerdict::kUnknownCommunicator:
      return absl::NotFoundError("the peer does not know the communicator");
    case wire::PeerVerdict::kNotSecure:
      return absl::UnauthenticatedError(absl::StrCat(
          preamble_.purpose == ConnectionPurpose::kLane
              ? "the peer accepts only encrypted lanes; set `lanes: {encryption: on}`"
              : "the peer accepts only daemons with a certificate of its cluster; set `tls`",
          " in mccsd's configuration on this host"));
    default:
      return absl::PermissionDeniedError("the peer rejected the connection; see its log");
  }
  const wire::Proof expected =
      wire::MakeProof(secret_, wire::ProofSide::kServer, hello_, challenge_.nonce);
  if (!wire::ProofsEqual(expected, challenge_.proof)) {
    return absl::PermissionDeniedError("the peer does not have the communicator's secret");
  }
  return absl::OkStatus();
}

// ---- server -------------------------------------------------------------------------------------

ServerHandshake::ServerHandshake(std::unique_ptr<Connection> connection, const SecretLookup& lookup,
                                 Random& random, PeerSecurity* security,
                                 const ServerTimeouts& timeouts, MonotonicNs now)
    : connection_(std::move(connection)),
      lookup_(lookup),
      random_(random),
      security_(security),
      timeouts_(timeouts),
      source_(connection_->remote().host),
      deadline_(now + timeouts.answer_ns) {}

void ServerHandshake::SetWaker(Waker* waker) {
  waker_ = waker;
  connection_->SetWaker(waker);
}

absl::StatusOr<std::unique_ptr<Connection>> ServerHandshake::Poll(MonotonicNs now) {
  while (state_ != State::kDone) {
    absl::StatusOr<bool> stepped = Step(now);
    if (!stepped.ok()) {
      absl::Status why = WithPeer(*connection_, "handshake with", stepped.status());
      connection_.reset();
      return why;
    }
    if (!*stepped) return nullptr;
  }
  return std::move(connection_);
}

// Returns true when the state has advanced.
absl::StatusOr<bool> ServerHandshake::Step(MonotonicNs now) {
  // AwaitSecret reports its timeout to the client.
  if (now >= deadline_ && state_ != State::kAwaitSecret) return TimeoutError();
  switch (state_) {
    case State::kAwaitHello:
      return AwaitHello(now);
    case State::kAwaitSecret:
      return AwaitSecret(now);
    case State::kSendChallenge:
    case State::kReject: {
      MCCS_ASSIGN_OR_RETURN(bool whole,
                            SendRest(*connection_, &challenge_, sizeof(challenge_), bytes_));
      if (!whole) return false;
      if (state_ == State::kReject) return rejection_;
      bytes_ = 0;
      state_ = State::kAwaitProof;
      return true;
    }
    case State::kAwaitProof:
      return AwaitProof();
    case State::kDone:
      break;
  }
  return true;
}

absl::StatusOr<bool> ServerHandshake::AwaitHello(MonotonicNs now) {
  if (!connection_->readable()) return false;
  // Only the magic first: what follows the marker is in TLS.
  const bool marked = bytes_ < sizeof(hello_.magic);
  const size_t wanted = marked ? sizeof(hello_.magic) : sizeof(hello_);
  MCCS_ASSIGN_OR_RETURN(const bool whole, ReceiveRest(*connection_, &hello_, wanted, bytes_));
  MCCS_RETURN_IF_ERROR(CheckMagic());
  if (!whole) return false;
  if (hello_.magic == wire::kSecureMagic) return Secure();
  if (marked) return true;
  bytes_ = 0;
  if (hello_.version != wire::kPeerVersion) {
    Reject(now, wire::PeerVerdict::kWrongVersion,
           absl::FailedPreconditionError(absl::StrCat(
               "the peer has version ", hello_.version, " of the daemons' protocol, this daemon ",
               wire::kPeerVersion, "; run the same release on all hosts")));
    return true;
  }
  absl::StatusOr<Preamble> preamble = FromWire(hello_);
  if (!preamble.ok()) {
    Reject(now, wire::PeerVerdict::kRejected, preamble.status());
    return true;
  }
  if (const absl::Status secure = CheckSecurity(*preamble); !secure.ok()) {
    Reject(now, wire::PeerVerdict::kNotSecure, secure);
    return true;
  }
  preamble_ = *preamble;
  if (secured_ != nullptr) peer_host_ = secured_->peer_host();
  deadline_ = now + timeouts_.lookup_ns;
  state_ = State::kAwaitSecret;
  return true;
}

absl::StatusOr<bool> ServerHandshake::Secure() {
  if (security_ == nullptr) {
    return absl::FailedPreconditionError(
        "the peer has a certificate, and this host has none; set `tls` in mccsd's configuration "
        "on this host");
  }
  std::unique_ptr<SecureConnection> secure =
      security_->Secure(std::move(connection_), PeerSecurity::End::kServer);
  secured_ = secure.get();
  connection_ = std::move(secure);
  connection_->SetWaker(waker_);
  bytes_ = 0;
  return true;
}

absl::Status ServerHandshake::CheckSecurity(const Preamble& preamble) const {
  if (secured_ != nullptr || !IsSecured(preamble, security_)) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("the peer requests a ", ToString(preamble),
                   preamble.purpose == ConnectionPurpose::kLane
                       ? " without encryption; set `lanes: {encryption: on}`"
                       : " without a certificate; set `tls`",
                   " in mccsd's configuration on that host"));
}

// Detects a foreign protocol from the first bytes, before a whole hello or the deadline.
absl::Status ServerHandshake::CheckMagic() const {
  const size_t here = std::min(bytes_, sizeof(hello_.magic));
  if (std::memcmp(&hello_, &wire::kPeerMagic, here) == 0) return absl::OkStatus();
  const bool marker = std::memcmp(&hello_, &wire::kSecureMagic, here) == 0;
  if (marker && secured_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(ForeignProtocol(&hello_, here));
}

absl::StatusOr<bool> ServerHandshake::AwaitSecret(MonotonicNs now) {
  if (!std::exchange(lookup_due_, false) && now < deadline_) return false;
  absl::StatusOr<std::optional<Secret>> secret = lookup_(preamble_);
  if (!secret.ok()) {
    // A client may retry if the communicator may still become known.
    const bool unknown = absl::IsNotFound(secret.status());
    Reject(now, unknown ? wire::PeerVerdict::kUnknownCommunicator : wire::PeerVerdict::kRejected,
           secret.status());
    return true;
  }
  if (!secret->has_value()) {
    if (now < deadline_) return false;
    Reject(now, wire::PeerVerdict::kUnknownCommunicator,
           absl::NotFoundError(absl::StrCat("the peer requests a ", ToString(preamble_),
                                            ", but no rank of this host joined it in time")));
    return true;
  }
  secret_ = **secret;
  deadline_ = now + timeouts_.answer_ns;
  challenge_ = {.magic = wire::kPeerMagic,
                .version = wire::kPeerVersion,
                .verdict = wire::PeerVerdict::kAccepted,
                .nonce = {},
                .proof = {}};
  random_.Fill(std::as_writable_bytes(std::span(challenge_.nonce)));
  challenge_.proof = wire::MakeProof(secret_, wire::ProofSide::kServer, hello_, challenge_.nonce);
  state_ = State::kSendChallenge;
  return true;
}

absl::StatusOr<bool> ServerHandshake::AwaitProof() {
  if (!connection_->readable()) return false;
  MCCS_ASSIGN_OR_RETURN(bool whole,
                        ReceiveRest(*connection_, proof_.data(), proof_.size(), bytes_));
  if (!whole) return false;
  const wire::Proof expected =
      wire::MakeProof(secret_, wire::ProofSide::kClient, hello_, challenge_.nonce);
  if (!wire::ProofsEqual(expected, proof_)) {
    return absl::PermissionDeniedError(absl::StrCat("the peer requests a ", ToString(preamble_),
                                                    " without that communicator's secret"));
  }
  state_ = State::kDone;
  return true;
}

absl::Status ServerHandshake::TimeoutError() const {
  if (state_ == State::kReject) return rejection_;
  if (secured_ != nullptr && secured_->handshaking())
    return absl::DeadlineExceededError("timed out: the peer did not complete the TLS handshake");
  if (state_ == State::kAwaitHello) {
    return absl::DeadlineExceededError(absl::StrCat(
        "timed out: the peer sent only ", bytes_, " of the ", sizeof(hello_), " bytes of a hello"));
  }
  return absl::DeadlineExceededError(
      "timed out: the peer did not prove that it has the communicator's secret");
}

void ServerHandshake::Reject(MonotonicNs now, wire::PeerVerdict verdict, absl::Status why) {
  challenge_ = {.magic = wire::kPeerMagic,
                .version = wire::kPeerVersion,
                .verdict = verdict,
                .nonce = {},
                .proof = {}};
  bytes_ = 0;
  deadline_ = now + timeouts_.answer_ns;
  rejection_ = std::move(why);
  state_ = State::kReject;
}

}  // namespace mccs
