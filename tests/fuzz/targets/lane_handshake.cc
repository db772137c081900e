// The first bytes on a connection between daemons (service/transport/handshake.h), for either side.
// A handshake succeeds only if the peer has proved that it has the communicator's secret; otherwise
// it waits, until its deadline at the latest, or ends with an error message.
//
// FUZZES: service/transport/handshake.cc service/transport/handshake.h
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "service/transport/handshake.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/fuzz/targets/input_stream.h"

namespace mccs {
namespace lane_handshake_fuzz {

constexpr uint64_t kCommId = 0x1a;
constexpr MonotonicNs kBegin = 1000;
constexpr int kMostSteps = 64;
constexpr Secret kSecret = {1, 2, 3};

// The proof of the peer, which any bytes follow.
enum class Proves : uint8_t { kNothing, kWithSecret, kWithAnother };

wire::Proof ProofOf(Proves proves, wire::ProofSide side, const wire::PeerHello& hello,
                    const wire::Nonce& nonce) {
  if (proves == Proves::kNothing) return {};
  return wire::MakeProof(proves == Proves::kWithSecret ? kSecret : Secret{9}, side, hello, nonce);
}

// The communicator is known, unknown, or not known yet.
absl::StatusOr<std::optional<Secret>> LookUp(const Preamble& preamble) {
  switch (preamble.comm_id.value()) {
    case kCommId:
      return kSecret;
    case kCommId + 1:
      return std::nullopt;
    case kCommId + 2:
      return absl::PermissionDeniedError("another tenant's");
    default:
      return absl::NotFoundError("unknown communicator");
  }
}

// Polls until the handshake ends. `now` advances by bytes of the input.
template <typename Handshake>
bool Drive(Handshake& handshake, InputStream& stream, FuzzInput& input) {
  MonotonicNs now = kBegin;
  for (int i = 0; i < kMostSteps; ++i) {
    const bool last = i + 1 == kMostSteps || input.empty();
    if (last) now = std::max(now, handshake.deadline());
    const auto done = handshake.Poll(now);
    if (!done.ok()) {
      MCCS_CHECK(!done.status().message().empty());
      return false;
    }
    if (*done != nullptr) return true;
    MCCS_CHECK(handshake.deadline() < kNever);
    if (last && handshake.deadline() <= now) {
      // A rejection that the peer does not read waits for one more deadline.
      now = handshake.deadline() + 1;
    }
    const std::span<const uint8_t> bytes = input.Bytes(input.Byte());
    stream.to_read.append(bytes.begin(), bytes.end());
    now += input.Byte() * kNsPerMs;
    stream.broken |= input.Byte() == 1;
  }
  return false;
}

void RunServer(FuzzInput& input, Proves proves) {
  SeededRandom random(1);
  auto stream = std::make_shared<InputStream>();
  wire::PeerHello hello{};
  hello.magic = wire::kPeerMagic;
  hello.version = wire::kPeerVersion;
  hello.purpose = static_cast<uint8_t>(1 + input.Below(4));
  hello.comm_id = kCommId + input.Below(4);
  input.Change(&hello);
  stream->Append(hello);
  const SecretLookup lookup = LookUp;
  ServerHandshake handshake(std::make_unique<InputConnection>(stream), lookup, random,
                            /*security=*/nullptr, {}, kBegin);
  const auto first = handshake.Poll(kBegin);
  if (!first.ok()) {
    MCCS_CHECK(!first.status().message().empty());
    return;
  }
  MCCS_CHECK(*first == nullptr);
  if (handshake.awaits_secret() && input.Below(2) == 0) handshake.RetryLookup();
  bool proved = false;
  if (stream->written.size() >= sizeof(wire::PeerChallenge) && proves != Proves::kNothing) {
    wire::PeerChallenge challenge;
    std::memcpy(&challenge, stream->written.data(), sizeof(challenge));
    stream->Append(ProofOf(proves, wire::ProofSide::kClient, hello, challenge.nonce));
    proved = proves == Proves::kWithSecret && challenge.verdict == wire::PeerVerdict::kAccepted;
  }
  if (!Drive(handshake, *stream, input)) return;
  MCCS_CHECK(proved);
  MCCS_CHECK(handshake.preamble().comm_id == CommId(kCommId) && handshake.secret() == kSecret);
}

void RunClient(FuzzInput& input, Proves proves) {
  SeededRandom random(1);
  auto stream = std::make_shared<InputStream>();
  ClientHandshake handshake(std::make_unique<InputConnection>(stream),
                            {.purpose = ConnectionPurpose::kMember, .comm_id = CommId(kCommId)},
                            kSecret, random, kBegin + kNsPerSec);
  const auto first = handshake.Poll(kBegin);
  MCCS_CHECK(first.ok() && *first == nullptr);
  wire::PeerHello hello;
  MCCS_CHECK(stream->written.size() == sizeof(hello));
  std::memcpy(&hello, stream->written.data(), sizeof(hello));
  wire::PeerChallenge challenge{};
  challenge.magic = wire::kPeerMagic;
  challenge.version = wire::kPeerVersion;
  challenge.nonce[0] = input.Byte();
  challenge.proof = ProofOf(proves, wire::ProofSide::kServer, hello, challenge.nonce);
  const wire::PeerChallenge valid = challenge;
  input.Change(&challenge);
  stream->Append(challenge);
  if (!Drive(handshake, *stream, input)) return;
  MCCS_CHECK(proves == Proves::kWithSecret && challenge.nonce == valid.nonce &&
             challenge.proof == valid.proof);
}

void Run(FuzzInput input) {
  const uint8_t kind = input.Byte();
  const auto proves = static_cast<Proves>(kind / 2 % 3);
  if (kind % 2 == 0) {
    RunServer(input, proves);
  } else {
    RunClient(input, proves);
  }
}

const FuzzTarget kTarget("lane_handshake", Run);

}  // namespace lane_handshake_fuzz
}  // namespace mccs
