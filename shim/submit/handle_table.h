// The live communicators, by their ncclComm_t handles.
//
// A handle is looked up and never dereferenced. It is the address of a cell of this table's own
// memory, so any bit pattern can be checked against the table's bounds. The cell begins with a word
// that differs from NCCL's magic: a real libnccl that gets such a handle rejects it. A slot has
// eight cells, used in turn, so that a stale handle does not refer to the slot's next communicator.
//
//   slot (64 bytes): | cell 0 | cell 1 | … | cell 7 |      handle = &cell[generation % 8]
//
// A CommRef keeps a communicator alive; the last one of a retired communicator destroys it.
#ifndef MCCS_SHIM_SUBMIT_HANDLE_TABLE_H_
#define MCCS_SHIM_SUBMIT_HANDLE_TABLE_H_

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "proto/shim_wire.h"
#include "shim/submit/communicator.h"

namespace mccs::shim {

class HandleTable;

// Keeps a communicator alive. Movable, not copyable.
class CommRef {
 public:
  CommRef() = default;
  CommRef(CommRef&& other) noexcept
      : table_(std::exchange(other.table_, nullptr)), slot_(other.slot_), comm_(other.comm_) {}
  CommRef& operator=(CommRef&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(slot_, other.slot_);
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~CommRef();

  explicit operator bool() const { return table_ != nullptr; }
  Communicator* operator->() const { return comm_; }
  Communicator& operator*() const { return *comm_; }
  Communicator* get() const { return table_ != nullptr ? comm_ : nullptr; }

 private:
  friend class HandleTable;
  CommRef(HandleTable* table, uint32_t slot, Communicator* comm)
      : table_(table), slot_(slot), comm_(comm) {}

  HandleTable* table_ = nullptr;
  uint32_t slot_ = 0;
  Communicator* comm_ = nullptr;
};

// THREAD: any. Find and the destructor of CommRef are lock-free.
// LIFETIME: that of the process, or until the last handle and CommRef are gone.
class HandleTable {
 public:
  static constexpr uint32_t kSlots = wire::kMaxCommsPerSession;

  HandleTable();

  // A new handle for `comm`; null if kSlots communicators are alive.
  ncclComm_t Insert(std::unique_ptr<Communicator> comm);

  // Empty for a handle that is not valid.
  CommRef Find(ncclComm_t handle);

  // Calls `visit` for every live communicator. Slots that were never used cost nothing.
  void ForEach(const std::function<void(Communicator&)>& visit);

  // Invalidates the handle. True for one caller only.
  bool Retire(ncclComm_t handle);

 private:
  friend class CommRef;
  static constexpr uint32_t kCells = 8;
  static constexpr uint64_t kCellMagic = 0x314d4f43'5343434dull;  // "MCCSCOM1"; not NCCL's

  // state: | generation (32) | live (1) | users (31) |
  // All uses of a slot are ordered by this word: acq_rel throughout.
  static constexpr uint64_t kLive = uint64_t{1} << 31;
  static constexpr uint64_t kUsers = kLive - 1;

  struct Slot {
    std::atomic<uint64_t> state{0};
    Communicator* comm = nullptr;  // written before `live` is set, deleted by the last user
  };

  // The slot and cell of a handle with any bit pattern; false if none.
  bool Locate(ncclComm_t handle, uint32_t* slot, uint32_t* cell) const;
  void Release(uint32_t slot);

  std::unique_ptr<uint64_t[]> cells_;  // kSlots × kCells
  std::unique_ptr<Slot[]> slots_;
  std::mutex mutex_;
  std::deque<uint32_t> free_;  // guarded by mutex_; oldest first, which delays reuse
  // Slots from here on were never used; release, pairs with ForEach.
  std::atomic<uint32_t> used_{0};
};

inline CommRef::~CommRef() {
  if (table_ != nullptr) table_->Release(slot_);
}

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_HANDLE_TABLE_H_
