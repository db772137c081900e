#include "trust/identity.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

constexpr char kScheme[] = "spiffe://";
constexpr size_t kMostNameBytes = 253;  // of a host name

std::string KindName(Identity::Kind kind) {
  switch (kind) {
    case Identity::Kind::kController:
      return "controller";
    case Identity::Kind::kHost:
      return "host";
    case Identity::Kind::kOperator:
      return "operator";
  }
  return "";
}

}  // namespace

std::string ToString(const Identity& identity) {
  std::string text = absl::StrCat(kScheme, identity.domain, "/", KindName(identity.kind));
  if (!identity.name.empty()) absl::StrAppend(&text, "/", identity.name);
  return text;
}

std::string Describe(const Identity& identity) {
  if (identity.kind == Identity::Kind::kController) return "the controller";
  return absl::StrCat(KindName(identity.kind), " ", identity.name);
}

absl::Status CheckIdentityName(std::string_view name) {
  const bool valid = !name.empty() && name.size() <= kMostNameBytes && name != "." &&
                     name != ".." && std::ranges::all_of(name, [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
                     });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(name.substr(0, kMostNameBytes)),
                   "' cannot be a name in a certificate: expected 1 to ", kMostNameBytes,
                   " letters, digits and the characters .-_"));
}

absl::StatusOr<Identity> ParseIdentity(std::string_view spiffe_id) {
  const std::string text(spiffe_id);
  const auto reject = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text.substr(0, 2 * kMostNameBytes),
                     "' names no part of a cluster: expected spiffe://DOMAIN/controller, "
                     "spiffe://DOMAIN/host/NAME or spiffe://DOMAIN/operator/NAME"));
  };
  if (text.rfind(kScheme, 0) != 0) return reject();
  const std::vector<std::string> parts = absl::StrSplit(text.substr(sizeof(kScheme) - 1), '/');
  for (const std::string& part : parts) {
    if (!CheckIdentityName(part).ok()) return reject();
  }
  for (const Identity::Kind kind :
       {Identity::Kind::kController, Identity::Kind::kHost, Identity::Kind::kOperator}) {
    const size_t expected = kind == Identity::Kind::kController ? 2 : 3;
    if (parts.size() != expected || parts[1] != KindName(kind)) continue;
    return Identity{.domain = parts[0], .kind = kind, .name = expected == 3 ? parts[2] : ""};
  }
  return reject();
}

}  // namespace mccs
