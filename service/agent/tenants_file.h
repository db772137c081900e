// The file in which a daemon keeps the controller's Tenants, so that they hold after a restart
// while the controller is away: a line "mccs-tenants 1 BYTES", then agent.Tenants. Replaced
// atomically: a daemon that dies in a write, also with its host, leaves the table of before or the
// new one.
//
// THREAD: any, one at a time per file. Blocks on the disk.
#ifndef MCCS_SERVICE_AGENT_TENANTS_FILE_H_
#define MCCS_SERVICE_AGENT_TENANTS_FILE_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/agent.pb.h"

namespace mccs {

// The system calls that replace a file; those of tests fail. On failure they set errno.
class FileCalls {
 public:
  virtual ~FileCalls() = default;

  // Opens an empty file for writing.
  virtual int Create(const std::string& path);
  virtual ssize_t Write(int fd, std::string_view bytes);
  virtual int Sync(int fd);
  virtual int Rename(const std::string& from, const std::string& to);
  virtual void Remove(const std::string& path);
};

// kNotFound: there is no file. kDataLoss: it is not complete, or not of this program; the text names
// it and the remedy.
absl::StatusOr<agent::v1::Tenants> ReadTenantsFile(const std::string& path);

class TenantsFile {
 public:
  // LIFETIME: `calls` outlives it.
  TenantsFile(std::string path, FileCalls* calls) : path_(std::move(path)), calls_(calls) {}

  // As ReadTenantsFile.
  absl::StatusOr<agent::v1::Tenants> Load();
  // Replaces the table, unless this object has loaded or kept the same one before. After an error,
  // whose text names the file and the remedy, the file has the table of before.
  absl::Status Keep(const agent::v1::Tenants& tenants);

 private:
  const std::string path_;
  FileCalls* const calls_;
  std::optional<std::string> kept_;  // what the file has, serialized; absent: unknown
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_TENANTS_FILE_H_
