// The files of SQLite, whose writes and syncs fail when the test says so, as on a full or broken
// disk or in a crash.
//
// THREAD: one. All databases that open while it exists use it; at most one exists.
#ifndef MCCS_TESTS_UNIT_STORE_FAILING_FILES_H_
#define MCCS_TESTS_UNIT_STORE_FAILING_FILES_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>

namespace mccs {

class FailingFiles {
 public:
  enum class Fault : uint8_t {
    kNone,
    kDiskFull,   // each write fails
    kSyncFails,  // each sync fails
    kTornWrite,  // a part of one write reaches the disk, then the process is dead: all fails
  };

  FailingFiles();
  ~FailingFiles();
  FailingFiles(const FailingFiles&) = delete;

  // The fault begins after `writes` more writes (kSyncFails: syncs) that succeed.
  void FailAfter(Fault fault, uint64_t writes);
  void Repair() { FailAfter(Fault::kNone, 0); }
  // The process is dead, as after a torn write: until Repair nothing reaches the disk.
  void Die();
  // Whether the fault has come.
  bool failed() const;

 private:
  sqlite3_vfs* const system_;
  const std::unique_ptr<sqlite3_vfs> own_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_STORE_FAILING_FILES_H_
