#include "shim/daemon/unique_id_env.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "shim/daemon/error_message.h"

namespace mccs::shim {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(wire::UniqueId));

// FNV-1a, 64 bits, from a given start (so that one text gives several independent words), and the
// finishing mix of splitmix64. It spreads ids; it is not a protection.
uint64_t HashString(std::string_view text, uint64_t start) {
  uint64_t hash = 0xcbf29ce484222325ull ^ start;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebull;
  return hash ^ (hash >> 31);
}

}  // namespace

absl::StatusOr<wire::UniqueId> UniqueIdFromCommId(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, std::min(colon, text.size()));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  wire::UniqueId id{};
  uint32_t port = 0;
  if (colon == std::string_view::npos || host.empty() || host.size() >= sizeof(id.host) ||
      !absl::SimpleAtoi(View(text.substr(colon + 1)), &port) || port == 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("invalid NCCL_COMM_ID '", View(text),
                                                   "': expected host:port or [IPv6 address]:port"));
  }
  id.magic = wire::kUniqueIdMagic;
  id.version = wire::kWireVersion;
  id.port = static_cast<uint16_t>(port);
  id.guessable = 1;
  id.comm_id = HashString(text, 0);
  const uint64_t secret[] = {HashString(text, 1), HashString(text, 2)};
  static_assert(sizeof(secret) == wire::kSecretBytes);
  std::memcpy(id.secret, secret, sizeof(secret));
  std::memcpy(id.host, host.data(), host.size());
  return id;
}

absl::Status ResolveRendezvous(wire::UniqueId& id) {
  const std::string host(id.host, strnlen(id.host, sizeof(id.host)));
  const auto address = ResolveHost(host);
  if (!address.ok() || address->size() >= sizeof(id.host)) {
    const std::string why =
        address.ok() ? "its address has " + std::to_string(address->size()) + " characters"
                     : std::string(address.status().message());
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot resolve host '", host, "' of NCCL_COMM_ID: ", why,
        "; use an address, or a name that every host of the job resolves (getent hosts ", host,
        ")"));
  }
  // /etc/hosts often maps a host's own name to a loopback address; "localhost" is meant as one.
  id.resolved = !IsNumericAddress(host) && host != "localhost" ? 1 : 0;
  std::memset(id.host, 0, sizeof(id.host));
  std::memcpy(id.host, address->data(), address->size());
  return absl::OkStatus();
}

absl::StatusOr<wire::UniqueId> OpenUniqueId(const ncclUniqueId& id) {
  wire::UniqueId ours;
  std::memcpy(&ours, &id, sizeof(ours));
  if (ours.magic != wire::kUniqueIdMagic) {
    return absl::InvalidArgumentError(
        "MCCS did not make this unique id: it comes from the real NCCL library, or is damaged or "
        "uninitialised; every rank of a job must load the libnccl.so.2 of MCCS: check that "
        "LD_PRELOAD reaches all of them");
  }
  if (ours.version < wire::kOldestWireVersion || ours.version > wire::kWireVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("this unique id has wire version ", ours.version, "; this library supports ",
                     wire::kOldestWireVersion, " to ", wire::kWireVersion,
                     "; use the same MCCS release on all hosts of the job"));
  }
  return ours;
}

}  // namespace mccs::shim
