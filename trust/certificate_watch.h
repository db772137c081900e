// The end of a certificate in a file that may be replaced while the program runs.
//
// THREAD: any. Blocks for the disk, at most once per kReadEveryNs.
#ifndef MCCS_TRUST_CERTIFICATE_WATCH_H_
#define MCCS_TRUST_CERTIFICATE_WATCH_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"

namespace mccs {

class CertificateWatch {
 public:
  // TlsWatch reads the files as often.
  static constexpr int64_t kReadEveryNs = 5 * kNsPerSec;

  // `path`: of a certificate in PEM. LIFETIME: `clock` outlives it.
  CertificateWatch(std::string path, const Clock* clock) : path_(std::move(path)), clock_(clock) {}

  // Unix time, in seconds; 0: the file cannot be read, or is no certificate.
  int64_t EndS();

 private:
  const std::string path_;
  const Clock* const clock_;
  std::mutex mutex_;  // guards the following members
  MonotonicNs next_read_ = 0;
  int64_t end_s_ = 0;
};

// Operators renew a certificate before this time.
inline constexpr int64_t kRenewBeforeEndS = 14 * 86'400;

// "certificate ends in 9 d 3 h", "certificate ended 2 h 5 min ago". Empty: its end is far, or
// unknown (0).
std::string CertificateProblem(int64_t end_s, int64_t now_s);

}  // namespace mccs

#endif  // MCCS_TRUST_CERTIFICATE_WATCH_H_
