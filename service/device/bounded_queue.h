// A bounded lock-free queue for several producers and several consumers (Dmitry Vyukov's design:
// every cell stores the number of the turn in which it may be written or read).
//
//   cell i:  turn == p      empty, the producer with ticket p may write
//            turn == p + 1  full, the consumer with ticket p may read; then turn = p + capacity
#ifndef MCCS_SERVICE_DEVICE_BOUNDED_QUEUE_H_
#define MCCS_SERVICE_DEVICE_BOUNDED_QUEUE_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace mccs {

// THREAD: any, except construction and destruction. Never blocks.
template <typename T>
class BoundedQueue {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Holds at least `capacity` entries (the next power of two).
  explicit BoundedQueue(size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? 2 : capacity) - 1),
        cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  // Returns false if the queue is full.
  bool Push(const T& value) {
    uint64_t ticket = head_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[ticket & mask_];
      // Pairs with the release store in Pop: the previous reader of the cell has finished.
      const uint64_t turn = cell.turn.load(std::memory_order_acquire);
      const auto ahead = static_cast<int64_t>(turn - ticket);
      if (ahead < 0) return false;
      if (ahead > 0) {
        ticket = head_.load(std::memory_order_relaxed);
      } else if (head_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
        cell.value = value;
        // Pairs with the acquire load in Pop: publishes the value.
        cell.turn.store(ticket + 1, std::memory_order_release);
        return true;
      }
    }
  }

  // Returns false if the queue is empty.
  bool Pop(T& value) {
    uint64_t ticket = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[ticket & mask_];
      // Pairs with the release store in Push.
      const uint64_t turn = cell.turn.load(std::memory_order_acquire);
      const auto ahead = static_cast<int64_t>(turn - (ticket + 1));
      if (ahead < 0) return false;
      if (ahead > 0) {
        ticket = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
        value = cell.value;
        // Pairs with the acquire load in Push.
        cell.turn.store(ticket + mask_ + 1, std::memory_order_release);
        return true;
      }
    }
  }

 private:
  static constexpr size_t kLineBytes = 64;

  struct Cell {
    std::atomic<uint64_t> turn;
    T value;
  };

  const size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kLineBytes) std::atomic<uint64_t> head_{0};  // next ticket of producers
  alignas(kLineBytes) std::atomic<uint64_t> tail_{0};  // next ticket of consumers
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_BOUNDED_QUEUE_H_
