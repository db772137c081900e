// The disk under a daemon's table of Tenants, which fails when the test says so. Its files are
// real.
//
// A daemon that dies here dies with its host: of what it has not synced, a part is lost.
//
// THREAD: one.
#ifndef MCCS_TESTS_UNIT_AGENT_FAILING_DISK_H_
#define MCCS_TESTS_UNIT_AGENT_FAILING_DISK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "service/agent/tenants_file.h"

namespace mccs {

class FailingDisk final : public FileCalls {
 public:
  enum class Fault : uint8_t {
    kNone,
    kFull,       // a file gets only `room` bytes
    kSyncFails,  // what was to be synced is lost, as on Linux
  };
  void Fail(Fault fault, size_t room = 0) {
    fault_ = fault;
    room_ = room;
  }
  void Repair() { fault_ = Fault::kNone; }

  // Points of a write at which the daemon may die.
  enum class Death : uint8_t { kInCreate, kInWrite, kBeforeSync, kBeforeRename, kAfterRename };
  static constexpr uint64_t kDeaths = 5;
  // The daemon dies there. Of a file that it has not synced, the disk has the first `left` bytes.
  // From then on all calls fail and change nothing.
  void DieAt(Death death, size_t left) {
    death_ = death;
    left_ = left;
  }
  // It does not die, unless it has.
  void StayAlive() { death_.reset(); }
  bool dead() const { return dead_; }
  // The next daemon starts, with the files as they are.
  void Restart();

  int Create(const std::string& path) override;
  ssize_t Write(int fd, std::string_view bytes) override;
  int Sync(int fd) override;
  int Rename(const std::string& from, const std::string& to) override;
  void Remove(const std::string& path) override;

 private:
  // Whether the daemon is dead now, here or before.
  bool DiesAt(Death here);
  void LoseUnsynced();

  Fault fault_ = Fault::kNone;
  size_t room_ = 0;
  size_t room_in_file_ = 0;
  std::optional<Death> death_;
  size_t left_ = 0;
  bool dead_ = false;
  std::string unsynced_;  // the file whose content may be lost; empty: none
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_AGENT_FAILING_DISK_H_
