#include "trust/tokens/token_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/unit/temporary_directory.h"
#include "tests/unit/trust/token_provider.h"

namespace mccs {
namespace token_verifier_test {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using KeyKind = TokenProvider::KeyKind;

constexpr int64_t kNow = 1'800'000'000;

class TokenVerifierTest : public testing::Test {
 protected:
  std::string WriteKeys(const std::string& text) {
    const std::string path = directory_.File("jwks.json");
    std::ofstream(path) << text;
    return path;
  }
  std::unique_ptr<TokenVerifier> VerifierOf(const TokenProvider& provider,
                                            const std::string& claim = "sub") {
    auto verifier = TokenVerifier::Make({.issuer = TokenProvider::kIssuer,
                                         .audience = "mccs",
                                         .keys = WriteKeys(provider.KeySet()),
                                         .claim = claim});
    EXPECT_TRUE(verifier.ok()) << verifier.status();
    return *std::move(verifier);
  }
  // The name, or the error.
  static std::string Ask(TokenVerifier& verifier, const std::string& token) {
    const absl::StatusOr<std::string> name = verifier.NameIn(token, kNow);
    if (name.ok()) return *name;
    EXPECT_TRUE(absl::IsUnauthenticated(name.status())) << name.status();
    return std::string(name.status().message());
  }
  std::string Ask(const json& claims) { return Ask(*verifier_, provider_.Sign(claims)); }
  static json Alice() { return TokenProvider::Claims("alice", kNow); }
  static json AliceWith(const char* claim, const json& value) {
    json claims = Alice();
    claims[claim] = value;
    return claims;
  }

  const TemporaryDirectory directory_;
  const TokenProvider provider_{KeyKind::kEc};
  const std::unique_ptr<TokenVerifier> verifier_ = VerifierOf(provider_);
};

TEST_F(TokenVerifierTest, AcceptsTokensOfTheProvider) {
  EXPECT_EQ(Ask(Alice()), "alice");
  EXPECT_EQ(Ask(AliceWith("aud", {"other", "mccs"})), "alice");
  const TokenProvider rsa(KeyKind::kRsa);
  EXPECT_EQ(Ask(*VerifierOf(rsa), rsa.Sign(Alice())), "alice");
}

TEST_F(TokenVerifierTest, RejectsAnotherKey) {
  const TokenProvider stranger(KeyKind::kEc);
  EXPECT_THAT(Ask(*verifier_, stranger.Sign(Alice())), HasSubstr("no key in"));
  const TokenProvider of_another_kind(KeyKind::kRsa);
  EXPECT_THAT(Ask(*verifier_, of_another_kind.Sign(Alice())), HasSubstr("no key in"));
}

TEST_F(TokenVerifierTest, RejectsAChangeOfAnyPart) {
  const std::string token = provider_.Sign(Alice());
  for (size_t i = 0; i < token.size(); i += 7) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    if (changed == token) continue;
    EXPECT_THAT(Ask(*verifier_, changed), HasSubstr("rejected the bearer token")) << i;
  }
}

// Without a signature, or signed with a key that is no secret.
TEST_F(TokenVerifierTest, RejectsOtherAlgorithms) {
  const std::vector<std::string> parts = absl::StrSplit(provider_.Sign(Alice()), '.');
  const std::string header = absl::WebSafeBase64Escape(R"({"alg":"none"})");
  EXPECT_THAT(Ask(*verifier_, absl::StrCat(header, ".", parts[1], ".")), HasSubstr("rejected"));
  EXPECT_THAT(Ask(*verifier_, absl::StrCat(header, ".", parts[1], ".", parts[2])),
              HasSubstr("its algorithm must be"));
  const TokenProvider secret(KeyKind::kSecret);
  EXPECT_THAT(Ask(*verifier_, secret.Sign(Alice())), HasSubstr("its algorithm must be"));
}

TEST_F(TokenVerifierTest, RejectsTokensForOthers) {
  EXPECT_THAT(Ask(AliceWith("iss", "https://evil.example.com")), HasSubstr("(`iss`)"));
  EXPECT_THAT(Ask(AliceWith("aud", "other")), HasSubstr("(`aud`)"));
  EXPECT_THAT(Ask(AliceWith("aud", json::array())), HasSubstr("(`aud`)"));
  EXPECT_THAT(Ask(AliceWith("aud", nullptr)), HasSubstr("(`aud`)"));
}

TEST_F(TokenVerifierTest, RejectsTokensOfOtherTimes) {
  constexpr int64_t kLeeway = TokenVerifier::kLeewayS;
  EXPECT_EQ(Ask(AliceWith("exp", kNow - kLeeway + 1)), "alice");
  EXPECT_THAT(Ask(AliceWith("exp", kNow - kLeeway)), HasSubstr("expired"));
  EXPECT_THAT(Ask(AliceWith("exp", "never")), HasSubstr("has no end"));
  EXPECT_EQ(Ask(AliceWith("nbf", kNow + kLeeway)), "alice");
  EXPECT_THAT(Ask(AliceWith("nbf", kNow + kLeeway + 1)), HasSubstr("not valid yet"));
}

TEST_F(TokenVerifierTest, RejectsNamesThatCouldMislead) {
  for (const json& name : {json(""), json(7), json(nullptr), json("a b"), json("a\nb"), json("ä"),
                           json(std::string(TokenVerifier::kMaxNameBytes + 1, 'a'))}) {
    EXPECT_THAT(Ask(AliceWith("sub", name)), HasSubstr("claim `sub`")) << name;
  }
}

TEST_F(TokenVerifierTest, AnEMailAddressMustBeVerified) {
  const auto verifier = VerifierOf(provider_, "email");
  json claims = AliceWith("email", "alice@example.com");
  EXPECT_EQ(Ask(*verifier, provider_.Sign(claims)), "alice@example.com");
  claims["email_verified"] = false;
  EXPECT_THAT(Ask(*verifier, provider_.Sign(claims)), HasSubstr("not verified"));
}

TEST_F(TokenVerifierTest, RejectsWhatIsNoToken) {
  for (const std::string& token :
       {std::string(), std::string("alice"), std::string("a.b.c"), std::string("...."),
        // cjose ends the program if it reads this.
        std::string(
            "eyJhbGciOiAiRVMyN===============TYinulLCAia3lknuogIm9uZSJ9.eyJpc3MiOiAiaSJ9.AQ"),
        std::string(TokenVerifier::kMaxTokenBytes + 1, 'a'), std::string(3, '\0')}) {
    EXPECT_THAT(Ask(*verifier_, token), HasSubstr("rejected the bearer token"));
  }
  EXPECT_THAT(Ask(*verifier_, provider_.Sign(json("text"))), HasSubstr("(`iss`)"));
}

TEST_F(TokenVerifierTest, ErrorsDoNotRepeatTheToken) {
  const TokenProvider stranger(KeyKind::kEc);
  const std::string token = stranger.Sign(Alice());
  EXPECT_THAT(Ask(*verifier_, token), Not(HasSubstr(token.substr(0, 20))));
}

TEST_F(TokenVerifierTest, UsesNewKeysAtOnceAndKeepsThoseBeforeIfTheFileIsBad) {
  const TokenProvider next(KeyKind::kEc, "two");
  WriteKeys(next.KeySet());
  EXPECT_EQ(Ask(*verifier_, next.Sign(Alice())), "alice");
  EXPECT_THAT(Ask(Alice()), HasSubstr("no key in"));
  WriteKeys("rubbish");
  EXPECT_EQ(Ask(*verifier_, next.Sign(Alice())), "alice");
}

TEST_F(TokenVerifierTest, NamesAFileThatCannotBeUsed) {
  const TokenProvider secret(KeyKind::kSecret);
  for (const std::string& text :
       {std::string("{"), std::string("{\"keys\": 7}"),
        std::string("{\"keys\": [{\"kty\": \"EC\"}]}"), secret.KeySet()}) {
    const auto made =
        TokenVerifier::Make({.issuer = "i", .audience = "a", .keys = WriteKeys(text)});
    EXPECT_TRUE(absl::IsInvalidArgument(made.status())) << made.status();
    EXPECT_THAT(std::string(made.status().message()), HasSubstr("jwks.json"));
  }
  const auto made = TokenVerifier::Make({.issuer = "i", .audience = "a", .keys = "/nowhere"});
  EXPECT_TRUE(absl::IsNotFound(made.status())) << made.status();
}

}  // namespace token_verifier_test
}  // namespace mccs
