#include "trust/tokens/token_verifier.h"

#include <cjose/cjose.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trust/files.h"

namespace mccs {
namespace {

using nlohmann::json;

// Signatures by a private key. Never "none", and never a keyed hash: its key could be a public one.
constexpr std::string_view kAlgorithms[] = {"RS256", "RS384", "RS512", "PS256", "PS384",
                                            "PS512", "ES256", "ES384", "ES512"};

struct KeyDeleter {
  void operator()(cjose_jwk_t* key) const { cjose_jwk_release(key); }
};
using Key = std::unique_ptr<cjose_jwk_t, KeyDeleter>;

struct SignedDeleter {
  void operator()(cjose_jws_t* message) const { cjose_jws_release(message); }
};
using Signed = std::unique_ptr<cjose_jws_t, SignedDeleter>;

template <typename... Parts>
absl::Status Rejected(const Parts&... parts) {
  return absl::UnauthenticatedError(absl::StrCat("rejected the bearer token: ", parts...));
}

// The member of an object; null: there is none.
const json* Find(const json& object, const std::string& name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::string TextOf(const json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool Names(const json* audience, const std::string& wanted) {
  if (audience == nullptr) return false;
  if (!audience->is_array()) return TextOf(audience) == wanted;
  return std::ranges::any_of(*audience, [&](const json& each) { return TextOf(&each) == wanted; });
}

bool IsPrintable(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

// Three parts in base64url without padding (RFC 7515). cjose ends the program for some other texts.
bool IsCompact(std::string_view token) {
  int parts = 0;
  while (true) {
    const size_t end = std::min(token.find('.'), token.size());
    const bool coded = std::ranges::all_of(token.substr(0, end), [](unsigned char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '_';
    });
    if (!coded || end == 0 || end % 4 == 1) return false;
    ++parts;
    if (end == token.size()) return parts == 3;
    token.remove_prefix(end + 1);
  }
}

absl::Status CheckTimes(const json& claims, int64_t now_s) {
  const auto seconds = [&](const char* name) -> std::optional<double> {
    const json* const value = Find(claims, name);
    return value != nullptr && value->is_number() ? std::optional(value->get<double>())
                                                  : std::nullopt;
  };
  const auto now = static_cast<double>(now_s);
  constexpr auto kLeeway = static_cast<double>(TokenVerifier::kLeewayS);
  const std::optional<double> ends = seconds("exp");
  if (!ends.has_value()) return Rejected("it has no end (`exp`)");
  if (*ends + kLeeway <= now) return Rejected("it has expired; get a new one");
  if (seconds("nbf").value_or(0) > now + kLeeway)
    return Rejected("it is not valid yet (`nbf`); compare the clocks");
  return absl::OkStatus();
}

}  // namespace

class TokenVerifier::Keys {
 public:
  static absl::StatusOr<std::shared_ptr<const Keys>> Parse(const std::string& text,
                                                           const std::string& path) {
    const json all = json::parse(text, /*callback=*/nullptr, /*allow_exceptions=*/false);
    const json* const list = Find(all, "keys");
    auto keys = std::make_shared<Keys>();
    for (const json& each : list != nullptr ? *list : json::array()) {
      const std::string type = TextOf(Find(each, "kty"));
      if (type != "RSA" && type != "EC") continue;
      const std::string one = each.dump();
      Key key(cjose_jwk_import(one.data(), one.size(), nullptr));
      if (key != nullptr) keys->keys_.push_back(std::move(key));
    }
    if (keys->keys_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " is no JSON Web Key Set with public keys (RSA or EC); get it from `jwks_uri` of ",
          "the provider's /.well-known/openid-configuration"));
    }
    return keys;
  }

  // Whether one of the keys has signed the message. A key that names itself verifies only messages
  // that name it or none.
  bool Verify(cjose_jws_t* message, const std::string& key_id) const {
    return std::ranges::any_of(keys_, [&](const Key& key) {
      const char* const own = cjose_jwk_get_kid(key.get(), nullptr);
      if (own != nullptr && !key_id.empty() && key_id != own) return false;
      return cjose_jws_verify(message, key.get(), nullptr);
    });
  }

 private:
  std::vector<Key> keys_;
};

TokenVerifier::TokenVerifier(TokenRules rules) : rules_(std::move(rules)) {}
TokenVerifier::~TokenVerifier() = default;

absl::StatusOr<std::unique_ptr<TokenVerifier>> TokenVerifier::Make(TokenRules rules) {
  std::unique_ptr<TokenVerifier> verifier(new TokenVerifier(std::move(rules)));
  const std::string& path = verifier->rules_.keys;
  MCCS_ASSIGN_OR_RETURN(verifier->text_, ReadTextFile("`tokens.keys`", path));
  MCCS_ASSIGN_OR_RETURN(verifier->keys_, Keys::Parse(verifier->text_, path));
  return verifier;
}

std::shared_ptr<const TokenVerifier::Keys> TokenVerifier::CurrentKeys() {
  absl::StatusOr<std::string> text = ReadTextFile("`tokens.keys`", rules_.keys);
  const std::lock_guard lock(mutex_);
  if (!text.ok() || *text == text_) return keys_;
  auto keys = Keys::Parse(*text, rules_.keys);
  text_ = *std::move(text);
  if (keys.ok()) keys_ = *std::move(keys);
  return keys_;
}

absl::StatusOr<std::string> TokenVerifier::NameIn(std::string_view token, int64_t now_s) {
  if (token.size() > kMaxTokenBytes)
    return Rejected("it is longer than ", kMaxTokenBytes, " bytes");
  if (!IsCompact(token)) return Rejected("it is no signed JSON Web Token");
  const Signed message(cjose_jws_import(token.data(), token.size(), nullptr));
  if (message == nullptr) return Rejected("it is no signed JSON Web Token");
  cjose_header_t* const header = cjose_jws_get_protected(message.get());
  const auto field = [&](const char* name) {
    const char* const value = cjose_header_get(header, name, nullptr);
    return std::string(value != nullptr ? value : "");
  };
  const std::string algorithm = field(CJOSE_HDR_ALG);
  if (std::ranges::find(kAlgorithms, algorithm) == std::end(kAlgorithms))
    return Rejected("its algorithm must be RS…, PS… or ES… with 256, 384 or 512 bits");
  if (!CurrentKeys()->Verify(message.get(), field(CJOSE_HDR_KID))) {
    return Rejected("no key in ", rules_.keys, " on the controller's host has signed it; update ",
                    "that file if the provider has new keys");
  }
  uint8_t* text = nullptr;
  size_t bytes = 0;
  if (!cjose_jws_get_plaintext(message.get(), &text, &bytes, nullptr))
    return Rejected("it has no content");
  const json claims = json::parse(text, text + bytes, /*callback=*/nullptr,
                                  /*allow_exceptions=*/false);
  if (TextOf(Find(claims, "iss")) != rules_.issuer)
    return Rejected("its issuer (`iss`) is not ", rules_.issuer);
  if (!Names(Find(claims, "aud"), rules_.audience))
    return Rejected("it is not for ", rules_.audience, " (`aud`)");
  MCCS_RETURN_IF_ERROR(CheckTimes(claims, now_s));
  std::string name = TextOf(Find(claims, rules_.claim));
  if (name.empty() || name.size() > kMaxNameBytes || !IsPrintable(name))
    return Rejected("its claim `", rules_.claim, "` has no name without blanks");
  const json* const verified = Find(claims, "email_verified");
  if (rules_.claim == "email" && verified != nullptr && *verified != true)
    return Rejected("the provider has not verified its e-mail address");
  return name;
}

}  // namespace mccs
