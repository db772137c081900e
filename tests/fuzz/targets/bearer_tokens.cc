// A client's bearer token, before anything is known about the client: rejected with a reason. The
// fuzzer cannot sign.
//
// FUZZES: trust/tokens/token_verifier.cc
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "trust/tokens/token_verifier.h"

namespace mccs {
namespace bearer_tokens_fuzz {

// The example of RFC 7515, appendix A.3.
constexpr char kKeys[] =
    R"({"keys": [{"kty": "EC", "crv": "P-256", "kid": "one",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})";

std::unique_ptr<TokenVerifier> MakeVerifier() {
  const std::string path = absl::StrCat("/tmp/mccs-fuzz-keys-", getpid(), ".json");
  std::ofstream(path) << kKeys;
  auto verifier = TokenVerifier::Make({.issuer = "i", .audience = "a", .keys = path});
  std::remove(path.c_str());
  MCCS_CHECK(verifier.ok());
  return *std::move(verifier);
}

void Run(FuzzInput input) {
  static TokenVerifier& verifier = *MakeVerifier().release();
  const absl::StatusOr<std::string> name = verifier.NameIn(input.Rest(), /*now_s=*/1'800'000'000);
  MCCS_CHECK(absl::IsUnauthenticated(name.status()));
  MCCS_CHECK(!name.status().message().empty());
}

const FuzzTarget kTarget("bearer_tokens", Run);

}  // namespace bearer_tokens_fuzz
}  // namespace mccs
