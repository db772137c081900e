// An OpenID Connect provider, as far as tokens show it, for tests.
#ifndef MCCS_TESTS_UNIT_TRUST_TOKEN_PROVIDER_H_
#define MCCS_TESTS_UNIT_TRUST_TOKEN_PROVIDER_H_

#include <cjose/cjose.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/check.h"

namespace mccs {

class TokenProvider {
 public:
  static constexpr char kIssuer[] = "https://login.example.com";

  enum class KeyKind { kRsa, kEc, kSecret };

  explicit TokenProvider(KeyKind kind, std::string key_id = "one")
      : algorithm_(kind == KeyKind::kRsa  ? "RS256"
                   : kind == KeyKind::kEc ? "ES256"
                                          : "HS256"),
        key_id_(std::move(key_id)),
        key_(Make(kind)) {
    MCCS_CHECK(key_ != nullptr &&
               cjose_jwk_set_kid(key_.get(), key_id_.data(), key_id_.size(), nullptr));
  }

  // A JSON Web Key Set with its key; with the private part if that is all of it.
  std::string KeySet() const {
    const bool secret = cjose_jwk_get_kty(key_.get(), nullptr) == CJOSE_JWK_KTY_OCT;
    return "{\"keys\": [" + Owned(cjose_jwk_to_json(key_.get(), secret, nullptr)) + "]}";
  }

  std::string Sign(const nlohmann::json& claims) const {
    const std::string text = claims.dump();
    cjose_header_t* const header = cjose_header_new(nullptr);
    MCCS_CHECK(cjose_header_set(header, CJOSE_HDR_ALG, algorithm_, nullptr) &&
               cjose_header_set(header, CJOSE_HDR_KID, key_id_.c_str(), nullptr));
    cjose_jws_t* const message = cjose_jws_sign(
        key_.get(), header, reinterpret_cast<const uint8_t*>(text.data()), text.size(), nullptr);
    MCCS_CHECK(message != nullptr);
    const char* token = nullptr;
    MCCS_CHECK(cjose_jws_export(message, &token, nullptr));
    std::string result = token;
    cjose_jws_release(message);
    cjose_header_release(header);
    return result;
  }

  // The contents of a token of `name`, an hour before its end.
  static nlohmann::json Claims(const std::string& name, int64_t now_s) {
    return {{"iss", kIssuer}, {"aud", "mccs"}, {"sub", name}, {"exp", now_s + 3600}};
  }

 private:
  struct KeyDeleter {
    void operator()(cjose_jwk_t* key) const { cjose_jwk_release(key); }
  };

  static std::string Owned(char* text) {
    std::string result = text;
    std::free(text);
    return result;
  }

  static cjose_jwk_t* Make(KeyKind kind) {
    constexpr uint8_t kExponent[] = {1, 0, 1};
    switch (kind) {
      case KeyKind::kRsa:
        return cjose_jwk_create_RSA_random(2048, kExponent, sizeof(kExponent), nullptr);
      case KeyKind::kEc:
        return cjose_jwk_create_EC_random(CJOSE_JWK_EC_P_256, nullptr);
      case KeyKind::kSecret:
        return cjose_jwk_create_oct_random(256, nullptr);
    }
    return nullptr;
  }

  const char* const algorithm_;
  const std::string key_id_;
  const std::unique_ptr<cjose_jwk_t, KeyDeleter> key_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TRUST_TOKEN_PROVIDER_H_
