// Operators who prove who they are by a bearer token: a JSON Web Token (RFC 7519) that an OpenID
// Connect provider has signed.
//
// The provider's public keys are in a file, a JSON Web Key Set (RFC 7517) as the provider publishes
// it. It is read again when it changes, so that the provider may replace its keys.
//
// THREAD: any. Blocks for the disk.
#ifndef MCCS_TRUST_TOKENS_TOKEN_VERIFIER_H_
#define MCCS_TRUST_TOKENS_TOKEN_VERIFIER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs {

// `tokens` in the configuration. Equal for tokens that are to be accepted.
struct TokenRules {
  std::string issuer;         // the claim `iss`
  std::string audience;       // one of the claim `aud`
  std::string keys;           // path of the JSON Web Key Set
  std::string claim = "sub";  // names the operator

  bool empty() const { return issuer.empty(); }
  friend bool operator==(const TokenRules&, const TokenRules&) = default;
};

class TokenVerifier {
 public:
  // Clocks of the provider and of this machine may differ by so much.
  static constexpr int64_t kLeewayS = 60;
  static constexpr size_t kMaxTokenBytes = 16 << 10;
  static constexpr size_t kMaxNameBytes = 256;

  // Errors name the file: kNotFound, kPermissionDenied, kInvalidArgument.
  static absl::StatusOr<std::unique_ptr<TokenVerifier>> Make(TokenRules rules);
  ~TokenVerifier();

  // The operator whom the token names. kUnauthenticated: why not, and the remedy, without the
  // token.
  absl::StatusOr<std::string> NameIn(std::string_view token, int64_t now_s);

  const TokenRules& rules() const { return rules_; }

 private:
  class Keys;
  explicit TokenVerifier(TokenRules rules);
  // The keys of the file as it is now; those before if it cannot be used.
  std::shared_ptr<const Keys> CurrentKeys();

  const TokenRules rules_;
  std::mutex mutex_;
  std::shared_ptr<const Keys> keys_;  // guarded by mutex_, as is text_
  std::string text_;                  // of the file
};

}  // namespace mccs

#endif  // MCCS_TRUST_TOKENS_TOKEN_VERIFIER_H_
