// The holder of a certificate: one of the parts of a cluster, as a SPIFFE id
// (https://spiffe.io/docs/latest/spiffe-specs/spiffe-id).
//
//   spiffe://DOMAIN/controller
//   spiffe://DOMAIN/host/NAME       the daemon of a host
//   spiffe://DOMAIN/operator/NAME   a person or a program that uses the operator API
//
// Pure. THREAD: any.
#ifndef MCCS_TRUST_IDENTITY_H_
#define MCCS_TRUST_IDENTITY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mccs {

// The trust domain of a cluster unless its operator chooses another one.
inline constexpr char kDefaultTrustDomain[] = "mccs";

struct Identity {
  enum class Kind { kController, kHost, kOperator };

  std::string domain;
  Kind kind = Kind::kHost;
  std::string name;  // empty: kController

  friend bool operator==(const Identity&, const Identity&) = default;
};

// The SPIFFE id.
std::string ToString(const Identity& identity);

// For a person: "the controller", "host h1", "operator alice".
std::string Describe(const Identity& identity);

// kInvalidArgument says what is expected.
absl::StatusOr<Identity> ParseIdentity(std::string_view spiffe_id);

// Whether `name` can be part of an Identity: 1 to 253 letters, digits and ".-_". kInvalidArgument
// names it.
absl::Status CheckIdentityName(std::string_view name);

}  // namespace mccs

#endif  // MCCS_TRUST_IDENTITY_H_
