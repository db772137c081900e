#include "trust/grpc/tls_copy.h"

#include <gtest/gtest.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/log.h"
#include "tests/unit/eventually.h"
#include "tests/unit/trust/new_certificates.h"
#include "trust/files.h"
#include "trust/openssl_pointers.h"

namespace mccs {
namespace tls_copy_test {

// Counts lines. THREAD: any.
class CountingLog final : public Log {
 public:
  int infos() const { return infos_; }
  int warnings() const { return warnings_; }

 protected:
  bool Enabled(LogLevel level) const override { return level == LogLevel::kInfo; }
  void Write(LogLevel level, std::string_view /*line*/) override {
    ++(level == LogLevel::kInfo ? infos_ : warnings_);
  }

 private:
  std::atomic<int> infos_ = 0;
  std::atomic<int> warnings_ = 0;
};

time_t TimeOf(const std::string& path) {
  struct stat facts = {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
  return facts.st_mtime;
}

bool IsPair(const std::string& certificate, const std::string& key) {
  return X509_check_private_key(CertificateFromPem(certificate).get(), KeyFromPem(key).get()) == 1;
}

class TlsCopyTest : public testing::Test {
 protected:
  std::unique_ptr<TlsCopy> Follow(const TlsFiles& files) {
    return *TlsCopy::Make(files, clock_, {.log = &log_, .refresh_ns = kNsPerMs});
  }
  static std::string Read(const TlsCopy& copy) { return *ReadTextFile("the copy", copy.path()); }

  NewCertificates cluster_;
  const SystemWallClock clock_;
  CountingLog log_;
};

// gRPC 1.51 aborts the process if a file that it reads is empty.
TEST_F(TlsCopyTest, IsNeverEmpty) {
  const TlsFiles files = cluster_.Host("h1");
  const TlsTexts texts = *ReadTlsTexts(files);
  const std::unique_ptr<TlsCopy> copy = Follow(files);
  EXPECT_EQ(Read(*copy), texts.key + texts.certificate);
  cluster_.Write("of host h1.crt", "");
  cluster_.Write("of host h1.key", "");
  ASSERT_TRUE(Eventually([&] { return log_.warnings() > 0; }));
  EXPECT_EQ(Read(*copy), texts.key + texts.certificate);
  const TlsTexts next = *ReadTlsTexts(cluster_.Host("h1"));
  EXPECT_TRUE(Eventually([&] { return Read(*copy) == next.key + next.certificate; }));
}

// An operator may keep both in one file, or a key with its certificate.
TEST_F(TlsCopyTest, HasTheCertificatesOfTheirFileOnly) {
  TlsFiles files = cluster_.Host("h1");
  const TlsTexts texts = *ReadTlsTexts(files);
  files.key = cluster_.Write("both", texts.certificate + texts.key);
  EXPECT_EQ(Read(*Follow(files)), texts.key + texts.certificate);
}

TEST_F(TlsCopyTest, BeginsWithTheKeyOfTheKeysFile) {
  TlsFiles files = cluster_.Host("h1");
  const TlsTexts texts = *ReadTlsTexts(files);
  const std::string other = ReadTlsTexts(cluster_.Host("h2"))->key;
  files.certificate = cluster_.Write("both", other + texts.certificate);
  const std::string copy = Read(*Follow(files));
  EXPECT_TRUE(IsPair(copy, copy));
}

// Reads in the order in which gRPC 1.51 does, which uses what it has read if the times are the same
// afterwards.
TEST_F(TlsCopyTest, AReaderGetsACertificateWithItsKeyWhileTheyAreRenewed) {
  constexpr int kRenewals = 50;
  const TlsFiles files = cluster_.Host("h1");
  const std::unique_ptr<TlsCopy> copy = Follow(files);
  std::atomic<bool> ends = false;
  std::atomic<int> read = 0, mixed = 0;
  std::thread reader([&] {
    while (!ends) {
      const time_t before = TimeOf(copy->path());
      EXPECT_NE(before, 0) << "gRPC takes it for an error";
      const std::string key = Read(*copy);
      const std::string certificate = Read(*copy);
      if (TimeOf(copy->path()) != before) continue;
      ++read;
      if (!IsPair(certificate, key)) ++mixed;
    }
  });
  for (int i = 1; i <= kRenewals; ++i) {
    cluster_.Host("h1");
    EXPECT_TRUE(Eventually([&] { return log_.infos() == i; }));
  }
  EXPECT_TRUE(Eventually([&, before = read.load()] { return read > before; }));
  ends = true;
  reader.join();
  EXPECT_EQ(mixed, 0) << "of " << read;
}

}  // namespace tls_copy_test
}  // namespace mccs
