#include "trust/certificate_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <thread>

#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace certificate_directory_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kDay = 24 * 60 * 60;

class CertificateDirectoryTest : public testing::Test {
 protected:
  Validity Days(int64_t days) const { return {now_s_ - kDay, now_s_ + days * kDay}; }
  std::string Directory() const { return directory_.File("pki"); }
  void Write(const CertificateAuthority& authority, const Identity& identity) {
    ASSERT_TRUE(WriteCertificate(DirectoryOf(Directory(), identity), authority.Pem()->certificate,
                                 *authority.Issue(identity, Days(1)))
                    .ok());
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat facts {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 0777;
  }

  const int64_t now_s_ = time(nullptr);
  const TemporaryDirectory directory_;
  const Identity host_{"mccs", Identity::Kind::kHost, "h1"};
};

TEST_F(CertificateDirectoryTest, AnAuthorityAndItsCertificatesSurviveTheDisk) {
  ASSERT_TRUE(WriteAuthority(Directory(), *CertificateAuthority::Create("mccs", Days(10))).ok());
  const absl::StatusOr<CertificateAuthority> read = ReadAuthority(Directory());
  ASSERT_TRUE(read.ok()) << read.status();
  Write(*read, host_);
  const TlsFiles files = TlsFilesIn(Directory() + "/hosts/h1");
  const absl::StatusOr<CertificateFacts> facts = CheckTlsFiles(files, now_s_);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->identity, host_);
  EXPECT_EQ(ModeOf(files.key), 0600u);
  EXPECT_EQ(ModeOf(Directory() + "/ca.key"), 0600u);
}

TEST_F(CertificateDirectoryTest, AnAuthorityIsNotReplaced) {
  const CertificateAuthority authority = *CertificateAuthority::Create("mccs", Days(10));
  ASSERT_TRUE(WriteAuthority(Directory(), authority).ok());
  const absl::Status again =
      WriteAuthority(Directory(), *CertificateAuthority::Create("mccs", Days(10)));
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), AllOf(HasSubstr("ca.key"), HasSubstr("invalid")));
  EXPECT_EQ(ReadAuthority(Directory())->Pem()->key, authority.Pem()->key);
}

TEST_F(CertificateDirectoryTest, ANewCertificateReplacesAllFilesAtOnce) {
  const CertificateAuthority authority = *CertificateAuthority::Create("mccs", Days(10));
  Write(authority, host_);
  const TlsFiles files = TlsFilesIn(DirectoryOf(Directory(), host_));
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) Write(authority, host_);
  });
  for (int i = 0; i < 200; ++i) {
    const absl::StatusOr<CertificateFacts> facts = CheckTlsFiles(files, now_s_);
    if (facts.ok()) continue;
    // The three paths are opened one after the other, and may be of two generations; never absent.
    EXPECT_THAT(std::string(facts.status().message()), HasSubstr("is not the key"));
  }
  writer.request_stop();
  writer.join();
  EXPECT_FALSE(std::filesystem::exists(DirectoryOf(Directory(), host_) + ".new"));
}

TEST_F(CertificateDirectoryTest, NamesWhatCannotBeRead) {
  EXPECT_THAT(std::string(ReadAuthority(Directory()).status().message()),
              AllOf(HasSubstr(Directory() + "/ca.crt"), HasSubstr("No such file")));
}

}  // namespace certificate_directory_test
}  // namespace mccs
