// Warnings of what strangers do, or tenants: who breaks a protocol again and again does not hide
// what else the log says.
//
// OWNER: whoever hears them. THREAD: its own only.
#ifndef MCCS_BASE_LIMITED_WARNINGS_H_
#define MCCS_BASE_LIMITED_WARNINGS_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/log.h"

namespace mccs {

class LimitedWarnings {
 public:
  // Lines of one source in a minute: a job whose eight processes fail each for its own reason is
  // told in full.
  static constexpr int kPerMinute = 16;
  // Sources with lines in one minute; of more of them nothing is written.
  static constexpr size_t kMostSources = 1024;

  // `kind`: what a source is, in one word for people. LIFETIME: `log` outlives this.
  LimitedWarnings(Log& log, std::string kind) : log_(log), kind_(std::move(kind)) {}

  // Writes the line, if the source has not had its share; the last one says that it is the last.
  void Write(const std::string& source, const std::string& line, MonotonicNs now);

 private:
  struct Minute {
    MonotonicNs ends = 0;
    int lines = 0;
  };

  Log& log_;
  const std::string kind_;
  absl::flat_hash_map<std::string, Minute> minutes_;  // that have not ended when last looked at
};

}  // namespace mccs

#endif  // MCCS_BASE_LIMITED_WARNINGS_H_
