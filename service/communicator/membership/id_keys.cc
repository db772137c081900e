#include "service/communicator/membership/id_keys.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/transport/handshake.h"

namespace mccs {
namespace {

// Uses of the key. No two may hash the same text.
constexpr std::string_view kForMac = "mccs unique id 1";
constexpr std::string_view kForName = "mccs named id 1 ";
static_assert(kForMac.size() == kForName.size());

using Hash = std::array<uint8_t, wire::kProofBytes>;
using Mac = std::array<uint8_t, wire::kUniqueIdMacBytes>;

wire::UniqueId WithoutMac(wire::UniqueId id) {
  std::fill(std::begin(id.mac), std::end(id.mac), uint8_t{0});
  return id;
}

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Hash HashOf(const std::string& key, std::string_view use, std::string_view text) {
  std::string all(use);
  all += text;
  return wire::KeyedHash(BytesOf(key), BytesOf(all));
}

// Shortened.
Mac MacOf(const wire::UniqueId& id, const std::string& key) {
  const wire::UniqueId bare = WithoutMac(id);
  const Hash hash = HashOf(key, kForMac, {reinterpret_cast<const char*>(&bare), sizeof(bare)});
  Mac mac;
  std::copy_n(hash.begin(), mac.size(), mac.begin());
  return mac;
}

bool IsSignedWith(const wire::UniqueId& id, const std::string& key) {
  const Mac mac = MacOf(id, key);
  return CRYPTO_memcmp(mac.data(), id.mac, mac.size()) == 0;
}

absl::Status NoKeyYet() {
  return absl::UnavailableError(
      "cannot join by a unique id of another host or by NCCL_COMM_ID: mccsd of this host has no "
      "key of the cluster, because the controller has not sent it yet; see in its log why it does "
      "not reach the controller, and repeat the call when it does");
}

}  // namespace

void IdKeys::Set(const std::string& key, MonotonicNs now) {
  if (key.empty() || key == newest_) return;
  before_ = std::exchange(newest_, key);
  // No other daemon accepts this one's own key, so the cluster's replaces it at once.
  newest_since_ = std::exchange(awaits_key_, false) ? now - kNewKeyAfterNs : now;
}

void IdKeys::Sign(wire::UniqueId* id, MonotonicNs now) const {
  if (newest_.empty()) return;
  const bool known = before_.empty() || now - newest_since_ >= kNewKeyAfterNs;
  const Mac mac = MacOf(*id, known ? newest_ : before_);
  std::copy(mac.begin(), mac.end(), std::begin(id->mac));
}

absl::Status IdKeys::Check(const wire::UniqueId& id) const {
  if (newest_.empty() || IsSignedWith(id, newest_)) return absl::OkStatus();
  if (!before_.empty() && IsSignedWith(id, before_)) return absl::OkStatus();
  if (awaits_key_) return NoKeyYet();
  return absl::PermissionDeniedError(absl::StrCat(
      "no daemon of this cluster made the unique id, which names the rendezvous address ",
      std::string(id.host, strnlen(id.host, sizeof(id.host))), " port ", id.port,
      ": pass the bytes of ncclGetUniqueId unchanged; if they are, see in `mccsctl get hosts` "
      "whether the host of the rank that called it is connected to the controller"));
}

absl::Status IdKeys::Name(wire::UniqueId* id, const std::string& tenant) const {
  if (awaits_key_) return NoKeyYet();
  if (newest_.empty()) return absl::OkStatus();
  // Only what the library derives from the text of the variable: it resolves the address, which may
  // give another one on each host. The tenant's name has any length, so it is the last part.
  std::string text(sizeof(id->comm_id) + sizeof(id->secret), '\0');
  std::memcpy(text.data(), &id->comm_id, sizeof(id->comm_id));
  std::memcpy(text.data() + sizeof(id->comm_id), id->secret, sizeof(id->secret));
  const Hash hash = HashOf(newest_, kForName, text + tenant);
  static_assert(sizeof(id->comm_id) + sizeof(id->secret) <= std::tuple_size_v<Hash>);
  std::memcpy(&id->comm_id, hash.data(), sizeof(id->comm_id));
  std::memcpy(id->secret, hash.data() + sizeof(id->comm_id), sizeof(id->secret));
  std::fill(std::begin(id->host), std::end(id->host), char{0});
  id->port = 0;
  id->resolved = 0;
  return absl::OkStatus();
}

bool SameId(const wire::UniqueId& a, const wire::UniqueId& b) {
  const wire::UniqueId one = WithoutMac(a), other = WithoutMac(b);
  return std::memcmp(&one, &other, sizeof(one)) == 0;
}

}  // namespace mccs
