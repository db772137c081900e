#include "trust/certificate_authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/x509_vfy.h>

#include <memory>

namespace mccs {
namespace certificate_authority_test {

using testing::HasSubstr;

constexpr int64_t kDay = 24 * 60 * 60;
constexpr int64_t kNow = 1'800'000'000;
constexpr Validity kYears{kNow, kNow + 3650 * kDay};
constexpr Validity kMonths{kNow, kNow + 90 * kDay};

const Identity kHost{"mccs", Identity::Kind::kHost, "h1"};

CertificateAuthority NewAuthority(const std::string& domain = "mccs") {
  absl::StatusOr<CertificateAuthority> made = CertificateAuthority::Create(domain, kYears);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

CertificateAndKey IssueHost(const CertificateAuthority& authority) {
  absl::StatusOr<CertificateAndKey> issued = authority.Issue(kHost, kMonths);
  EXPECT_TRUE(issued.ok()) << issued.status();
  return *std::move(issued);
}

// OpenSSL's own verification, as TLS does it for one end.
int Verify(const CertificateAuthority& authority, const std::string& certificate, int purpose,
           int64_t at_s) {
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(X509_STORE_new(),
                                                                      &X509_STORE_free);
  const OpensslPointer<X509> root = CertificateFromPem(authority.Pem()->certificate);
  const OpensslPointer<X509> leaf = CertificateFromPem(certificate);
  X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(
      X509_STORE_CTX_new(), &X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_STORE_CTX_set_time(context.get(), 0, static_cast<time_t>(at_s));
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
  return X509_verify_cert(context.get()) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(context.get());
}

TEST(CertificateAuthorityTest, IssuesCertificatesForBothEnds) {
  const CertificateAuthority authority = NewAuthority();
  const CertificateAndKey issued = IssueHost(authority);
  EXPECT_EQ(Verify(authority, issued.certificate, X509_PURPOSE_SSL_SERVER, kNow), X509_V_OK);
  EXPECT_EQ(Verify(authority, issued.certificate, X509_PURPOSE_SSL_CLIENT, kNow), X509_V_OK);
  EXPECT_NE(KeyFromPem(issued.key), nullptr);
}

TEST(CertificateAuthorityTest, TheHolderIsInTheCertificate) {
  const absl::StatusOr<CertificateFacts> facts =
      ParseCertificate(IssueHost(NewAuthority()).certificate);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->identity, kHost);
  EXPECT_EQ(facts->subject, "CN=host h1, O=mccs");
  EXPECT_EQ(facts->issuer, "CN=MCCS certificate authority, O=mccs");
  EXPECT_EQ(facts->validity, kMonths);
}

TEST(CertificateAuthorityTest, AnotherAuthoritysCertificatesAreNotValid) {
  const CertificateAndKey issued = IssueHost(NewAuthority());
  EXPECT_NE(Verify(NewAuthority(), issued.certificate, X509_PURPOSE_SSL_CLIENT, kNow), X509_V_OK);
}

TEST(CertificateAuthorityTest, AHolderIssuesNothing) {
  const CertificateAuthority authority = NewAuthority();
  EXPECT_THAT(std::string(CertificateAuthority::Load(IssueHost(authority)).status().message()),
              HasSubstr("'CN=host h1, O=mccs' is not that of an authority"));
}

TEST(CertificateAuthorityTest, IssuesAfterItIsLoaded) {
  const CertificateAuthority authority = NewAuthority("example.org");
  const absl::StatusOr<CertificateAuthority> loaded = CertificateAuthority::Load(*authority.Pem());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->domain(), "example.org");
  const absl::StatusOr<CertificateAndKey> issued =
      loaded->Issue({"example.org", Identity::Kind::kController, ""}, kMonths);
  ASSERT_TRUE(issued.ok()) << issued.status();
  EXPECT_EQ(Verify(authority, issued->certificate, X509_PURPOSE_SSL_SERVER, kNow), X509_V_OK);
}

TEST(CertificateAuthorityTest, RejectsAKeyOfAnotherAuthority) {
  CertificateAndKey mixed = *NewAuthority().Pem();
  mixed.key = NewAuthority().Pem()->key;
  EXPECT_THAT(std::string(CertificateAuthority::Load(mixed).status().message()),
              HasSubstr("do not belong together"));
  EXPECT_THAT(std::string(CertificateAuthority::Load({}).status().message()),
              HasSubstr("no certificate"));
}

TEST(CertificateAuthorityTest, RejectsForeignDomainsAndInvalidNames) {
  const CertificateAuthority authority = NewAuthority();
  EXPECT_THAT(
      std::string(
          authority.Issue({"other", Identity::Kind::kHost, "h1"}, kMonths).status().message()),
      HasSubstr("of mccs, not of other"));
  EXPECT_FALSE(
      authority.Issue({"mccs", Identity::Kind::kHost, "h1,URI:spiffe://mccs/controller"}, kMonths)
          .ok());
  EXPECT_FALSE(CertificateAuthority::Create("a b", kYears).ok());
}

TEST(CertificateAuthorityTest, NoCertificateOutlivesTheAuthority) {
  const CertificateAuthority authority = NewAuthority();
  const auto issued = authority.Issue(kHost, {kNow, kYears.to_s + kDay});
  ASSERT_TRUE(issued.ok()) << issued.status();
  EXPECT_EQ(ParseCertificate(issued->certificate)->validity.to_s, kYears.to_s);
}

TEST(CertificateTest, NamesSubjectAndRemedyOutsideItsTime) {
  const CertificateFacts facts = *ParseCertificate(IssueHost(NewAuthority()).certificate);
  EXPECT_TRUE(CheckTime(facts, kNow).ok());
  EXPECT_TRUE(CheckTime(facts, kMonths.to_s).ok());
  EXPECT_EQ(CheckTime(facts, kMonths.to_s + 1).message(),
            "the certificate of 'CN=host h1, O=mccs' expired at 2027-04-15 08:00:00 UTC; the clock "
            "here says 2027-04-15 08:00:01 UTC: install a new certificate");
  EXPECT_THAT(std::string(CheckTime(facts, kNow - 1).message()), HasSubstr("correct it"));
}

TEST(CertificateTest, NeedsAnIdentity) {
  const CertificateAuthority authority = NewAuthority();
  EXPECT_THAT(std::string(ParseCertificate(authority.Pem()->certificate).status().message()),
              HasSubstr("has no SPIFFE id of this cluster"));
  EXPECT_THAT(
      std::string(ParseCertificate("-----BEGIN CERTIFICATE-----\nAAAA\n").status().message()),
      HasSubstr("no certificate in PEM"));
}

}  // namespace certificate_authority_test
}  // namespace mccs
