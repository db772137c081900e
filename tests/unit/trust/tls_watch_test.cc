#include "trust/tls_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/recording_log.h"
#include "tests/unit/trust/new_certificates.h"

namespace mccs {
namespace tls_watch_test {

using testing::HasSubstr;

class TlsWatchTest : public testing::Test {
 protected:
  std::unique_ptr<TlsWatch> Start(const TlsFiles& files) {
    auto watch = TlsWatch::Start(files, clock_, {.log = &log_, .refresh_ns = 3600 * kNsPerSec},
                                 [this](const TlsTexts& texts, const CertificateFacts& /*own*/) {
                                   if (why_not_.ok()) used_.push_back(texts);
                                   return why_not_;
                                 });
    EXPECT_TRUE(watch.ok()) << watch.status();
    return *std::move(watch);
  }
  TlsFiles Host(const std::string& name) { return cluster_.Host(name); }
  CertificateAndKey Issue(const std::string& host) const {
    return *cluster_.authority().Issue({"mccs", Identity::Kind::kHost, host},
                                       {cluster_.now_s() - 9, cluster_.now_s() + 99});
  }

  NewCertificates cluster_;
  const SystemWallClock clock_;
  RecordingLog log_;
  std::vector<TlsTexts> used_;
  absl::Status why_not_;
};

TEST_F(TlsWatchTest, ACertificateIsUsedOnlyWithItsKey) {
  const TlsFiles files = Host("h1");
  const std::unique_ptr<TlsWatch> watch = Start(files);
  ASSERT_EQ(used_.size(), 1u);
  watch->Refresh();
  EXPECT_EQ(used_.size(), 1u) << "nothing has changed";
  const CertificateAndKey next = Issue("h1");
  cluster_.Write("of host h1.crt", next.certificate);
  watch->Refresh();
  watch->Refresh();
  EXPECT_EQ(used_.size(), 1u);
  EXPECT_EQ(log_.Count("so the ones before stay: " + files.key + " is not the key of"), 1u);
  cluster_.Write("of host h1.key", next.key);
  watch->Refresh();
  ASSERT_EQ(used_.size(), 2u);
  EXPECT_EQ(used_.back().certificate, next.certificate);
  EXPECT_EQ(used_.back().key, next.key);
  EXPECT_TRUE(log_.Contains("new connections use the certificate of 'CN=host h1, O=mccs'"));
}

TEST_F(TlsWatchTest, TheIdentityOfAProgramStays) {
  const TlsFiles files = Host("h1");
  const std::unique_ptr<TlsWatch> watch = Start(files);
  const CertificateAndKey other = Issue("h2");
  cluster_.Write("of host h1.crt", other.certificate);
  cluster_.Write("of host h1.key", other.key);
  watch->Refresh();
  EXPECT_EQ(used_.size(), 1u);
  EXPECT_TRUE(log_.Contains("is now the certificate of spiffe://mccs/host/h2"));
}

TEST_F(TlsWatchTest, EachNewProblemIsLogged) {
  const TlsFiles files = Host("h1");
  const std::string certificate = ReadTlsTexts(files)->certificate;
  const std::unique_ptr<TlsWatch> watch = Start(files);
  for (int i = 0; i < 2; ++i) {
    cluster_.Write("of host h1.crt", "");
    watch->Refresh();
    cluster_.Write("of host h1.crt", certificate);
    watch->Refresh();
  }
  EXPECT_EQ(log_.Count("cannot be used"), 2u);
  EXPECT_EQ(used_.size(), 1u);
}

TEST_F(TlsWatchTest, AFailureOfTheUserIsOneOfTheFiles) {
  const std::unique_ptr<TlsWatch> watch = Start(Host("h1"));
  why_not_ = absl::ResourceExhaustedError("no descriptors");
  Host("h1");
  watch->Refresh();
  EXPECT_TRUE(log_.Contains("so the ones before stay: no descriptors"));
  why_not_ = absl::OkStatus();
  watch->Refresh();
  EXPECT_EQ(used_.size(), 2u);
}

TEST_F(TlsWatchTest, DoesNotStartWithFilesThatCannotBeUsed) {
  TlsFiles files = Host("h1");
  files.authority = cluster_.Write("none", "");
  const auto watch = TlsWatch::Start(
      files, clock_, {},
      [](const TlsTexts& /*texts*/, const CertificateFacts& /*own*/) { return absl::OkStatus(); });
  EXPECT_THAT(std::string(watch.status().message()), HasSubstr(files.authority));
}

}  // namespace tls_watch_test
}  // namespace mccs
