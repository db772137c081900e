// Files of a cluster's authority and of certificates that it has issued, for tests.
#ifndef MCCS_TESTS_UNIT_TRUST_NEW_CERTIFICATES_H_
#define MCCS_TESTS_UNIT_TRUST_NEW_CERTIFICATES_H_

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/temporary_directory.h"
#include "trust/certificate_authority.h"
#include "trust/tls_files.h"

namespace mccs {

class NewCertificates {
 public:
  static constexpr int64_t kDay = 24 * 60 * 60;

  explicit NewCertificates(const std::string& domain = kDefaultTrustDomain)
      : authority_(*CertificateAuthority::Create(domain, {now_s() - kDay, now_s() + 10 * kDay})) {
    Write("ca", authority_.Pem()->certificate);
  }

  int64_t now_s() const { return now_s_; }
  const CertificateAuthority& authority() const { return authority_; }

  // Writes new files; those of an earlier call with this identity are replaced.
  TlsFiles Issue(const Identity& identity, std::optional<Validity> validity = std::nullopt) {
    const CertificateAndKey issued =
        *authority_.Issue(identity, validity.value_or(Validity{now_s() - kDay, now_s() + kDay}));
    const std::string name = absl::StrCat("of ", Describe(identity));
    return {.authority = Path("ca"),
            .certificate = Write(absl::StrCat(name, ".crt"), issued.certificate),
            .key = Write(absl::StrCat(name, ".key"), issued.key)};
  }
  TlsFiles Controller() { return Issue({authority_.domain(), Identity::Kind::kController, ""}); }
  TlsFiles Host(const std::string& name) {
    return Issue({authority_.domain(), Identity::Kind::kHost, name});
  }

  std::string Path(const std::string& name) const { return directory_.File(name); }
  // Returns the path.
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }

 private:
  const int64_t now_s_ = time(nullptr);
  const TemporaryDirectory directory_;
  const CertificateAuthority authority_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TRUST_NEW_CERTIFICATES_H_
