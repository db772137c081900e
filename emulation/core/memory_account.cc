#include "emulation/core/memory_account.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

namespace mccs::emulation {
namespace {

// A mapping in another process prevents the seal. An exported descriptor has a shared lock
// (ExportMemory), which lasts as long as any copy of it.
bool IsHeldElsewhere(int memory) {
  if (flock(memory, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
  return fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE) != 0 && errno == EBUSY;
}

}  // namespace

MemoryAccount::MemoryAccount(int gpus, uint64_t capacity_bytes)
    : capacity_bytes_(capacity_bytes), used_bytes_(static_cast<size_t>(gpus)) {}

bool MemoryAccount::Reserve(int gpu, size_t bytes) {
  std::lock_guard lock(mutex_);
  uint64_t& used = used_bytes_[static_cast<size_t>(gpu)];
  const auto fits = [&] { return bytes <= capacity_bytes_ && used <= capacity_bytes_ - bytes; };
  if (!fits()) ReclaimReleased();
  if (!fits()) return false;
  used += bytes;
  return true;
}

void MemoryAccount::Release(int gpu, size_t bytes) {
  std::lock_guard lock(mutex_);
  used_bytes_[static_cast<size_t>(gpu)] -= bytes;
}

void MemoryAccount::ReleaseUnlessHeld(int gpu, size_t bytes, UniqueFd memory) {
  const bool held = IsHeldElsewhere(memory.get());
  UniqueFd kept(held ? fcntl(memory.get(), F_DUPFD_CLOEXEC, 0) : -1);
  memory.Reset();
  std::lock_guard lock(mutex_);
  if (kept.valid()) {
    held_.push_back({gpu, bytes, std::move(kept)});
  } else {
    used_bytes_[static_cast<size_t>(gpu)] -= bytes;
  }
}

void MemoryAccount::ReclaimReleased() {
  std::erase_if(held_, [this](const Held& held) {
    if (IsHeldElsewhere(held.memory.get())) return false;
    used_bytes_[static_cast<size_t>(held.gpu)] -= held.bytes;
    return true;
  });
}

uint64_t MemoryAccount::used_bytes(int gpu) {
  std::lock_guard lock(mutex_);
  ReclaimReleased();
  return used_bytes_[static_cast<size_t>(gpu)];
}

}  // namespace mccs::emulation
