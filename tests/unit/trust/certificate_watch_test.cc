#include "trust/certificate_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/controller/manual_clock.h"
#include "tests/unit/temporary_directory.h"
#include "trust/certificate_directory.h"

namespace mccs {
namespace certificate_watch_test {

constexpr int64_t kNow = 1'800'000'000;
constexpr int64_t kDay = 86'400;

class CertificateWatchTest : public testing::Test {
 protected:
  void Issue(int64_t end_s) {
    const CertificateAuthority authority =
        *CertificateAuthority::Create("mccs", {.from_s = kNow, .to_s = kNow + 1000 * kDay});
    const Identity host{"mccs", Identity::Kind::kHost, "h1"};
    ASSERT_TRUE(WriteCertificate(directory_.path(), authority.Pem()->certificate,
                                 *authority.Issue(host, {.from_s = kNow, .to_s = end_s}))
                    .ok());
  }

  ManualClock clock_;
  const TemporaryDirectory directory_;
  CertificateWatch watch_{TlsFilesIn(directory_.path()).certificate, &clock_};
};

TEST_F(CertificateWatchTest, SeesANewCertificateAfterAFewSeconds) {
  Issue(kNow + 10 * kDay);
  EXPECT_EQ(watch_.EndS(), kNow + 10 * kDay);
  Issue(kNow + 90 * kDay);
  EXPECT_EQ(watch_.EndS(), kNow + 10 * kDay) << "it does not read the file each time";
  clock_.now += CertificateWatch::kReadEveryNs;
  EXPECT_EQ(watch_.EndS(), kNow + 90 * kDay);
}

TEST_F(CertificateWatchTest, AFileThatCannotBeReadHasNoEnd) {
  EXPECT_EQ(watch_.EndS(), 0);
  std::ofstream(TlsFilesIn(directory_.path()).certificate) << "no certificate\n";
  clock_.now += CertificateWatch::kReadEveryNs;
  EXPECT_EQ(watch_.EndS(), 0);
  std::filesystem::remove(TlsFilesIn(directory_.path()).certificate);
  Issue(kNow + kDay);
  clock_.now += CertificateWatch::kReadEveryNs;
  EXPECT_EQ(watch_.EndS(), kNow + kDay);
}

TEST(CertificateProblem, IsAnEndWithinFourteenDays) {
  EXPECT_EQ(CertificateProblem(0, kNow), "");
  EXPECT_EQ(CertificateProblem(kNow + 14 * kDay, kNow), "");
  EXPECT_EQ(CertificateProblem(kNow + 14 * kDay - 1, kNow), "certificate ends in 13 d 23 h");
  EXPECT_EQ(CertificateProblem(kNow + 3600, kNow), "certificate ends in 1 h");
  EXPECT_EQ(CertificateProblem(kNow - 2 * kDay, kNow), "certificate ended 2 d ago");
}

}  // namespace certificate_watch_test
}  // namespace mccs
