#include "trust/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/trust/new_certificates.h"

namespace mccs {
namespace tls_files_test {

using testing::AllOf;
using testing::HasSubstr;

class TlsFilesTest : public testing::Test {
 protected:
  std::string WhyNot(const TlsFiles& files) {
    return std::string(CheckTlsFiles(files, cluster_.now_s()).status().message());
  }

  NewCertificates cluster_;
};

TEST_F(TlsFilesTest, AcceptsWhatTheAuthorityHasIssued) {
  const absl::StatusOr<CertificateFacts> facts =
      CheckTlsFiles(cluster_.Host("h1"), cluster_.now_s());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->identity, (Identity{"mccs", Identity::Kind::kHost, "h1"}));
}

TEST_F(TlsFilesTest, NamesTheFileThatIsMissingOrUnusable) {
  TlsFiles files = cluster_.Host("h1");
  files.key = cluster_.Path("none");
  EXPECT_THAT(WhyNot(files),
              AllOf(HasSubstr("private key " + files.key), HasSubstr("No such file")));
  files.key = cluster_.Write("empty", "");
  EXPECT_THAT(WhyNot(files), AllOf(HasSubstr(files.key), HasSubstr("is empty")));
  files.key = cluster_.Path("ca");
  EXPECT_THAT(WhyNot(files), AllOf(HasSubstr(files.key), HasSubstr("no private key")));
  files.key = cluster_.Host("h2").key;
  EXPECT_THAT(WhyNot(files), AllOf(HasSubstr(files.key), HasSubstr("is not the key"),
                                   HasSubstr("'CN=host h1, O=mccs'")));
  files.certificate = "";
  EXPECT_THAT(WhyNot(files), HasSubstr("the file of the certificate is not set"));
}

TEST_F(TlsFilesTest, NamesSubjectAndIssuerOfAForeignCertificate) {
  NewCertificates other("example.org");
  TlsFiles files = other.Host("h1");
  files.authority = cluster_.Path("ca");
  EXPECT_THAT(WhyNot(files),
              AllOf(HasSubstr("'CN=host h1, O=example.org'"),
                    HasSubstr("issued by 'CN=MCCS certificate authority, O=example.org'"),
                    HasSubstr(files.authority)));
}

TEST_F(TlsFilesTest, SaysThatACertificateHasExpired) {
  const int64_t now = cluster_.now_s();
  const TlsFiles files =
      cluster_.Issue({"mccs", Identity::Kind::kHost, "h1"}, Validity{now - 100, now - 1});
  EXPECT_THAT(WhyNot(files), AllOf(HasSubstr(files.certificate), HasSubstr("expired at")));
}

TEST_F(TlsFilesTest, AnotherKindIsNamedWithTheNeededOne) {
  const absl::StatusOr<CertificateFacts> facts =
      CheckTlsFiles(cluster_.Host("h1"), cluster_.now_s());
  ASSERT_TRUE(facts.ok());
  EXPECT_TRUE(CheckKind(*facts, Identity::Kind::kHost, "mccsd").ok());
  EXPECT_EQ(CheckKind(*facts, Identity::Kind::kController, "mccs-controller").message(),
            "the certificate of 'CN=host h1, O=mccs' is that of host h1: mccs-controller needs one "
            "of spiffe://mccs/controller");
}

}  // namespace tls_files_test
}  // namespace mccs
