// A host's table of Tenants, kept by production's TenantsFile on a disk that fails when the test
// says so. It stays when the daemon dies.
//
// The next daemon must find the table that was kept last, or the one in whose write the daemon
// died.
//
// THREAD: one.
#ifndef MCCS_TESTS_SIM_SIM_TENANTS_FILE_H_
#define MCCS_TESTS_SIM_SIM_TENANTS_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "proto/agent.pb.h"
#include "service/agent/tenants_file.h"
#include "tests/unit/agent/failing_disk.h"

namespace mccs {

class SimTenantsFile {
 public:
  struct Counts {
    uint64_t not_kept = 0;  // without a death
    // After a death in a write: the table of before, or the new one.
    uint64_t found_old = 0, found_new = 0;
  };

  explicit SimTenantsFile(std::string path) : path_(std::move(path)) {}

  // A daemon starts. Returns its last table; nothing: it has none.
  std::optional<agent::v1::Tenants> Start();
  // The daemon keeps a table. False: it has died meanwhile. REQUIRES: Start has been called.
  bool Keep(const agent::v1::Tenants& tenants);

  FailingDisk& disk() { return disk_; }
  const FailingDisk& disk() const { return disk_; }
  const Counts& counts() const { return counts_; }
  // The error of a daemon that has not found its table; empty: each has.
  const std::string& violation() const { return violation_; }

 private:
  const std::string path_;
  FailingDisk disk_;
  std::optional<TenantsFile> file_;   // of the daemon
  std::optional<std::string> kept_;   // serialized; absent: none
  std::optional<std::string> dying_;  // the one in whose write the daemon died
  Counts counts_;
  std::string violation_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_TENANTS_FILE_H_
