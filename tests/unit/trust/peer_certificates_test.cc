#include "trust/peer_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/trust/forged_certificates.h"
#include "tests/unit/trust/new_certificates.h"

namespace mccs {
namespace peer_certificates_test {

using testing::AllOf;
using testing::HasSubstr;

class PeerCertificatesTest : public testing::Test {
 protected:
  CertificateAndKey Authority() { return *cluster_.authority().Pem(); }
  Validity Valid() const { return {now_s_ - 100, now_s_ + 100}; }
  std::string Issue(const Validity& validity) {
    return cluster_.authority().Issue(kHost, validity)->certificate;
  }

  // "" if the client is accepted, else the reason.
  std::string Reason(const std::string& certificate, const std::string& between = "") {
    refused_ = clients_.Check(certificate, between, now_s_);
    return refused_.has_value() ? RefusalName(refused_->reason) : "";
  }
  std::string Message() const { return refused_.has_value() ? refused_->message : ""; }

  const Identity kHost{"mccs", Identity::Kind::kHost, "h1"};
  NewCertificates cluster_;
  const int64_t now_s_ = cluster_.now_s();
  PeerCertificates clients_{cluster_.Path("ca"), PeerCertificates::Peers::kClients};
  PeerCertificates servers_{cluster_.Path("ca"), PeerCertificates::Peers::kServers};
  std::optional<RefusedPeer> refused_;
};

TEST_F(PeerCertificatesTest, AcceptsACertificateOfTheAuthority) {
  EXPECT_EQ(Reason(Issue(Valid())), "");
  EXPECT_EQ(Reason(Issue({now_s_ - 1, now_s_ + 1})), "");
}

TEST_F(PeerCertificatesTest, RefusesOtherTimesAndNamesThem) {
  EXPECT_EQ(Reason(Issue({now_s_ - 100, now_s_ - 1})), "expired");
  EXPECT_EQ(refused_->subject, "CN=host h1, O=mccs");
  EXPECT_THAT(Message(), AllOf(HasSubstr("the certificate of 'CN=host h1, O=mccs' expired at " +
                                         FormatTime(now_s_ - 1)),
                               HasSubstr("a valid certificate of this cluster's authority"),
                               HasSubstr("mccs-controller issue-certificate")));
  EXPECT_EQ(Reason(Issue({now_s_ + 10, now_s_ + 100})), "expired");
  EXPECT_THAT(Message(), AllOf(HasSubstr("' is valid only from " + FormatTime(now_s_ + 10)),
                               HasSubstr("correct the clocks")));
}

TEST_F(PeerCertificatesTest, RefusesAnotherAuthority) {
  const NewCertificates other("lab");
  const std::string foreign =
      other.authority().Issue({"lab", Identity::Kind::kHost, "h1"}, Valid())->certificate;
  EXPECT_EQ(Reason(foreign), "foreign");
  EXPECT_THAT(Message(), AllOf(HasSubstr("'CN=host h1, O=lab', issued by "),
                               HasSubstr("not one of the authority in " + cluster_.Path("ca")),
                               HasSubstr("mccs-controller issue-certificate")));
  // With the authority itself, too.
  EXPECT_EQ(Reason(foreign, other.authority().Pem()->certificate), "foreign");
  // Expired as well: a new one of the other authority would not help.
  EXPECT_EQ(Reason(other.authority()
                       .Issue({"lab", Identity::Kind::kHost, "h1"}, {now_s_ - 9, now_s_ - 1})
                       ->certificate),
            "foreign");
}

TEST_F(PeerCertificatesTest, RefusesAnAuthorityWithTheSameName) {
  const NewCertificates same;
  const std::string forged = same.authority().Issue(kHost, Valid())->certificate;
  EXPECT_NE(Reason(forged), "");
  EXPECT_NE(Reason(forged, same.authority().Pem()->certificate), "");
}

TEST_F(PeerCertificatesTest, RefusesACertificateThatSignsItself) {
  EXPECT_EQ(Reason(ForgedCertificate{.validity = Valid()}.Make(nullptr).certificate), "foreign");
}

TEST_F(PeerCertificatesTest, RefusesAChangedCertificate) {
  const OpensslPointer<X509> certificate = CertificateFromPem(Issue(Valid()));
  unsigned char* bytes = nullptr;
  const int count = i2d_X509(certificate.get(), &bytes);
  ASSERT_GT(count, 0);
  bytes[count - 1] ^= 1;  // of the signature
  const unsigned char* changed = bytes;
  const OpensslPointer<X509> other(d2i_X509(nullptr, &changed, count));
  OPENSSL_free(bytes);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(Reason(PemOf(other.get())), "foreign");
}

TEST_F(PeerCertificatesTest, RefusesOtherPurposes) {
  const CertificateAndKey authority = Authority();
  ForgedCertificate forged{.validity = Valid()};
  ASSERT_EQ(Reason(forged.Make(&authority).certificate), "");
  forged.extensions = {{NID_ext_key_usage, "serverAuth"}};
  EXPECT_EQ(Reason(forged.Make(&authority).certificate), "other");
  EXPECT_THAT(Message(), HasSubstr("'CN=host h1' is not usable for a client"));
  forged.extensions = {{NID_key_usage, "critical,keyEncipherment"},
                       {NID_ext_key_usage, "clientAuth"}};
  EXPECT_EQ(Reason(forged.Make(&authority).certificate), "other");
}

TEST_F(PeerCertificatesTest, RefusesWeakKeys) {
  const CertificateAndKey authority = Authority();
  EXPECT_EQ(
      Reason(ForgedCertificate{.validity = Valid(), .rsa_bits = 512}.Make(&authority).certificate),
      "other");
}

TEST_F(PeerCertificatesTest, AServersIsForAServer) {
  const CertificateAndKey authority = Authority();
  ForgedCertificate forged{.validity = Valid(), .extensions = {{NID_ext_key_usage, "serverAuth"}}};
  EXPECT_EQ(servers_.Check(forged.Make(&authority).certificate, "", now_s_), std::nullopt);
  forged.extensions = {{NID_ext_key_usage, "clientAuth"}};
  refused_ = servers_.Check(forged.Make(&authority).certificate, "", now_s_);
  EXPECT_THAT(Message(), HasSubstr("'CN=host h1' is not usable for a server"));
  const NewCertificates other("lab");
  const Identity controller{"lab", Identity::Kind::kController, ""};
  refused_ = servers_.Check(other.authority().Issue(controller, Valid())->certificate, "", now_s_);
  EXPECT_THAT(Message(), AllOf(HasSubstr("'CN=the controller, O=lab', issued by "),
                               HasSubstr("another cluster's, or the files here are older"),
                               HasSubstr("mccs-controller issue-certificate")));
}

class ChainTest : public PeerCertificatesTest {
 protected:
  CertificateAndKey Between(const Validity& validity) const {
    return ForgedCertificate{.common_name = "between",
                             .validity = validity,
                             .extensions = ForgedCertificate::AuthorityExtensions()}
        .Make(&root_);
  }

  const CertificateAndKey root_ =
      ForgedCertificate{.common_name = "root",
                        .validity = {now_s_ - 1000, now_s_ + 1000},
                        .extensions = ForgedCertificate::AuthorityExtensions()}
          .Make(nullptr);
  const std::string ca_ = cluster_.Write("ca", root_.certificate);
};

TEST_F(ChainTest, IsAcceptedWithTheCertificatesBetween) {
  const CertificateAndKey between = Between(Valid());
  const std::string leaf = ForgedCertificate{.validity = Valid()}.Make(&between).certificate;
  EXPECT_EQ(Reason(leaf, between.certificate), "");
  EXPECT_EQ(Reason(leaf, leaf + between.certificate), "");
  EXPECT_EQ(Reason(leaf), "foreign");
}

TEST_F(ChainTest, AnExpiredOneIsNamed) {
  const CertificateAndKey between = Between({now_s_ - 100, now_s_ - 1});
  EXPECT_EQ(Reason(ForgedCertificate{.validity = Valid()}.Make(&between).certificate,
                   between.certificate),
            "expired");
  EXPECT_THAT(Message(), HasSubstr("the certificate of 'CN=between' expired at "));
}

TEST_F(ChainTest, AHostIsNoAuthority) {
  const CertificateAndKey host = ForgedCertificate{.validity = Valid()}.Make(&root_);
  ASSERT_EQ(Reason(host.certificate), "");
  const std::string operators =
      ForgedCertificate{.common_name = "operator admin", .validity = Valid()}
          .Make(&host)
          .certificate;
  EXPECT_NE(Reason(operators, host.certificate), "");
}

TEST_F(PeerCertificatesTest, RefusesWhatIsNoCertificate) {
  EXPECT_EQ(Reason(""), "missing");
  EXPECT_THAT(Message(), AllOf(HasSubstr("`tls` in mccsd's configuration"), HasSubstr("--tls")));
  EXPECT_EQ(Reason("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "other");
}

TEST_F(PeerCertificatesTest, ANewAuthorityIsUsedAtOnce) {
  const std::string certificate = Issue(Valid());
  ASSERT_EQ(Reason(certificate), "");
  cluster_.Write("ca", "");  // being replaced
  EXPECT_EQ(Reason(certificate), "");
  std::filesystem::remove(cluster_.Path("ca"));
  EXPECT_EQ(Reason(certificate), "");
  cluster_.Write("ca", NewCertificates().authority().Pem()->certificate);
  EXPECT_NE(Reason(certificate), "");
  cluster_.Write("ca", Authority().certificate);
  EXPECT_EQ(Reason(certificate), "");
}

TEST_F(PeerCertificatesTest, WithoutAnAuthorityNobodyIsAccepted) {
  const std::string certificate = Issue(Valid());
  std::filesystem::remove(cluster_.Path("ca"));
  EXPECT_EQ(Reason(certificate), "other");
  EXPECT_THAT(Message(), HasSubstr(cluster_.Path("ca")));
  cluster_.Write("ca", "no certificate");
  EXPECT_EQ(Reason(certificate), "other");
}

TEST_F(PeerCertificatesTest, AMessageHasAShortPrintableName) {
  ForgedCertificate forged{.common_name = "a\nb\x1b[31m", .validity = Valid()};
  EXPECT_EQ(Reason(forged.Make(nullptr).certificate), "foreign");
  EXPECT_THAT(Message(), HasSubstr("'CN=a\\0Ab\\1B[31m'"));
  forged.common_name = std::string(64, '\n');
  forged.extensions.clear();
  EXPECT_EQ(Reason(forged.Make(nullptr).certificate), "foreign");
  EXPECT_LT(refused_->subject.size(), 200u);
  EXPECT_LT(Message().size(), 800u);
}

}  // namespace peer_certificates_test
}  // namespace mccs
