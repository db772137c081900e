// A program's TLS files, which operators replace while it runs. New files are used only if TLS can
// work with all of them: with an empty file, another certificate's key or another identity, the
// ones before stay.
//
// THREAD: any, except where it says otherwise. Blocks for the disk.
#ifndef MCCS_TRUST_TLS_WATCH_H_
#define MCCS_TRUST_TLS_WATCH_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "trust/tls_files.h"

namespace mccs {

class TlsWatch {
 public:
  // Uses new files from now on; an error if it cannot. THREAD: one at a time.
  using Use = std::function<absl::Status(const TlsTexts& texts, const CertificateFacts& own)>;

  struct Options {
    Log* log = nullptr;                  // null: another watch of the process logs the same files
    int64_t refresh_ns = 5 * kNsPerSec;  // from one Refresh to the next, by a thread
  };

  // Calls `use` with the first files. Errors as of CheckTlsFiles, and those of `use`. LIFETIME:
  // clock and log outlive this.
  static absl::StatusOr<std::unique_ptr<TlsWatch>> Start(const TlsFiles& files,
                                                         const WallClock& clock,
                                                         const Options& options, Use use);
  // Afterwards `use` is not called.
  ~TlsWatch();
  TlsWatch(const TlsWatch&) = delete;
  TlsWatch& operator=(const TlsWatch&) = delete;

  // Reads the files again. The log has new files that are used, and once why they cannot be.
  void Refresh();

 private:
  TlsWatch(TlsFiles files, const WallClock& clock, const Options& options, Use use)
      : files_(std::move(files)), options_(options), clock_(clock), use_(std::move(use)) {}

  absl::Status UseNewFiles();
  void RunLoop();

  const TlsFiles files_;
  const Options options_;
  const WallClock& clock_;
  const Use use_;
  std::mutex refresh_mutex_;  // guards the following members
  TlsTexts used_;
  std::optional<Identity> identity_;  // of used_; nothing: none are used yet
  std::string failure_;               // of the last reading, as it was logged
  std::mutex stop_mutex_;
  bool stops_ = false;  // guarded by stop_mutex_
  std::condition_variable stop_;
  std::thread thread_;
};

}  // namespace mccs

#endif  // MCCS_TRUST_TLS_WATCH_H_
