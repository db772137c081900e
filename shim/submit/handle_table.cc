#include "shim/submit/handle_table.h"

namespace mccs::shim {

HandleTable::HandleTable() : cells_(new uint64_t[kSlots * kCells]), slots_(new Slot[kSlots]) {
  for (uint32_t i = 0; i < kSlots; ++i) free_.push_back(i);
}

ncclComm_t HandleTable::Insert(std::unique_ptr<Communicator> comm) {
  // Locked to the end: a late user's Release must not see a partly filled slot.
  std::lock_guard lock(mutex_);
  if (free_.empty()) return nullptr;
  const uint32_t index = free_.front();
  free_.pop_front();
  Slot& slot = slots_[index];
  slot.comm = comm.release();
  if (index >= used_.load(std::memory_order_relaxed)) {
    used_.store(index + 1, std::memory_order_release);
  }
  // Late users of the slot's former communicator may change the count meanwhile: keep their count.
  uint64_t before = slot.state.load(std::memory_order_relaxed);
  uint64_t after;
  do {
    after = ((before >> 32) + 1) << 32 | kLive | (before & kUsers);
  } while (!slot.state.compare_exchange_weak(before, after, std::memory_order_acq_rel));
  uint64_t& cell = cells_[index * kCells + (after >> 32) % kCells];
  cell = kCellMagic;
  return reinterpret_cast<ncclComm_t>(&cell);
}

bool HandleTable::Locate(ncclComm_t handle, uint32_t* slot, uint32_t* cell) const {
  const uintptr_t offset =
      reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(cells_.get());
  if (offset >= kSlots * kCells * sizeof(uint64_t) || offset % sizeof(uint64_t) != 0) return false;
  *slot = static_cast<uint32_t>(offset / sizeof(uint64_t) / kCells);
  *cell = static_cast<uint32_t>(offset / sizeof(uint64_t) % kCells);
  return true;
}

CommRef HandleTable::Find(ncclComm_t handle) {
  uint32_t index;
  uint32_t cell;
  if (!Locate(handle, &index, &cell)) return {};
  Slot& slot = slots_[index];
  const uint64_t state = slot.state.fetch_add(1, std::memory_order_acq_rel);
  if ((state & kLive) == 0 || (state >> 32) % kCells != cell) {
    Release(index);
    return {};
  }
  return CommRef(this, index, slot.comm);
}

void HandleTable::ForEach(const std::function<void(Communicator&)>& visit) {
  const uint32_t used = used_.load(std::memory_order_acquire);
  for (uint32_t index = 0; index < used; ++index) {
    Slot& slot = slots_[index];
    if ((slot.state.load(std::memory_order_acquire) & kLive) == 0) continue;
    const uint64_t state = slot.state.fetch_add(1, std::memory_order_acq_rel);
    if ((state & kLive) == 0) {
      Release(index);
      continue;
    }
    const CommRef comm(this, index, slot.comm);
    visit(*comm);
  }
}

bool HandleTable::Retire(ncclComm_t handle) {
  uint32_t index;
  uint32_t cell;
  if (!Locate(handle, &index, &cell)) return false;
  Slot& slot = slots_[index];
  uint64_t before = slot.state.fetch_add(1, std::memory_order_acq_rel) + 1;
  bool retired = false;
  while ((before & kLive) != 0 && (before >> 32) % kCells == cell && !retired) {
    retired = slot.state.compare_exchange_weak(before, before & ~kLive, std::memory_order_acq_rel);
  }
  Release(index);
  return retired;
}

void HandleTable::Release(uint32_t index) {
  Slot& slot = slots_[index];
  const uint64_t state = slot.state.fetch_sub(1, std::memory_order_acq_rel);
  if ((state & kLive) != 0 || (state & kUsers) != 1) return;
  // This may be the last user of a retired communicator. Several late users can count to zero in
  // turn; the lock ensures that only one of them destroys it.
  std::unique_ptr<Communicator> gone;
  {
    std::lock_guard lock(mutex_);
    const uint64_t now = slot.state.load(std::memory_order_acquire);
    if ((now & kLive) != 0 || (now & kUsers) != 0 || slot.comm == nullptr) return;
    gone.reset(std::exchange(slot.comm, nullptr));
    free_.push_back(index);
  }
}

}  // namespace mccs::shim
