#include "tests/unit/agent/failing_disk.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace mccs {
namespace {

int FailWith(int error) {
  errno = error;
  return -1;
}

}  // namespace

void FailingDisk::Restart() {
  death_.reset();
  dead_ = false;
}

int FailingDisk::Create(const std::string& path) {
  if (DiesAt(Death::kInCreate)) return FailWith(EIO);
  room_in_file_ = room_;
  unsynced_ = path;
  return FileCalls::Create(path);
}

ssize_t FailingDisk::Write(int fd, std::string_view bytes) {
  if (dead_) return FailWith(EIO);
  if (fault_ == Fault::kFull) {
    if (room_in_file_ == 0) return FailWith(ENOSPC);
    bytes = bytes.substr(0, room_in_file_);
    room_in_file_ -= bytes.size();
  }
  const ssize_t written = FileCalls::Write(fd, bytes);
  return DiesAt(Death::kInWrite) ? FailWith(EIO) : written;
}

// No file is really synced, which would take milliseconds.
int FailingDisk::Sync(int /*fd*/) {
  if (DiesAt(Death::kBeforeSync)) return FailWith(EIO);
  if (fault_ == Fault::kSyncFails) {
    LoseUnsynced();
    return FailWith(EIO);
  }
  unsynced_.clear();
  return 0;
}

int FailingDisk::Rename(const std::string& from, const std::string& to) {
  if (DiesAt(Death::kBeforeRename)) return FailWith(EIO);
  const int result = FileCalls::Rename(from, to);
  if (result == 0 && unsynced_ == from) unsynced_ = to;
  return DiesAt(Death::kAfterRename) ? FailWith(EIO) : result;
}

void FailingDisk::Remove(const std::string& path) {
  if (dead_) return;
  FileCalls::Remove(path);
  if (unsynced_ == path) unsynced_.clear();
}

bool FailingDisk::DiesAt(Death here) {
  if (!dead_ && death_ == here) {
    dead_ = true;
    LoseUnsynced();
  }
  return dead_;
}

void FailingDisk::LoseUnsynced() {
  if (unsynced_.empty()) return;
  std::error_code missing;
  const uintmax_t bytes = std::filesystem::file_size(unsynced_, missing);
  if (!missing) std::filesystem::resize_file(unsynced_, std::min<uintmax_t>(left_, bytes));
}

}  // namespace mccs
