// A grid of blocks that runs commands (kernels/run_commands.h) on the host: each thread of a block
// is a thread of this process.
#ifndef MCCS_TESTS_UNIT_KERNELS_HOST_GRID_H_
#define MCCS_TESTS_UNIT_KERNELS_HOST_GRID_H_

#include <atomic>
#include <barrier>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/block_words.h"
#include "kernels/commands.h"
#include "kernels/run_commands.h"

namespace mccs {

struct GridShape {
  uint32_t blocks = 1;
  uint32_t threads = 2;  // of a block
  uint32_t arena_bytes = 40 << 10;
};

// One launch of the kernel. Ends when `done` has reached `target`.
class HostGrid {
 public:
  // LIFETIME: all outlive this. Runs no block yet.
  HostGrid(const GridShape& shape, kernels::CommandQueue& queue, kernels::BlockWords& words,
           const uint64_t& done, uint64_t target)
      : shape_(shape), queue_(queue), words_(words), done_(done), target_(target) {
    for (uint32_t i = 0; i < shape.blocks; ++i) shared_.push_back(std::make_unique<Shared>(shape));
  }
  HostGrid(const HostGrid&) = delete;
  ~HostGrid() { Join(); }

  void StartBlock(uint32_t index) {
    for (uint32_t i = 0; i < shape_.threads; ++i) {
      threads_.emplace_back([this, index, i] {
        const Block block(*this, *shared_[index], index, {i, shape_.threads});
        kernels::RunCommands(block, queue_, words_, &done_, target_);
      });
    }
  }
  void StartAll() {
    for (uint32_t i = 0; i < shape_.blocks; ++i) StartBlock(i);
  }
  // How often threads have found nothing to do.
  uint64_t pauses() const { return pauses_.load(); }
  // From now on threads stop in each pause after the first `pauses`, until GoOn().
  void StopAfter(uint64_t pauses) { most_pauses_ = pauses; }
  void GoOn() { most_pauses_ = kUnlimited; }
  // Waits until all blocks have ended.
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  // The memory of a block.
  struct Shared {
    explicit Shared(const GridShape& shape)
        : barrier(static_cast<ptrdiff_t>(shape.threads)), arena(shape.arena_bytes / 16 + 1) {}
    struct alignas(16) Unit {
      unsigned char bytes[16];
    };
    std::barrier<> barrier;
    kernels::BlockMemory memory;
    std::vector<Unit> arena;
    bool held = false;
    std::atomic<bool> any = false;
  };

  class Block {
   public:
    Block(HostGrid& grid, Shared& shared, uint32_t index, kernels::Team team)
        : grid_(grid), shared_(shared), index_(index), team_(team) {}
    uint32_t index() const { return index_; }
    uint32_t blocks() const { return grid_.shape_.blocks; }
    kernels::Team team() const { return team_; }
    void Sync() const { shared_.barrier.arrive_and_wait(); }
    template <typename F>
    bool Holds(const F& condition) const {
      if (team_.index == 0) shared_.held = condition();
      Sync();
      const bool held = shared_.held;
      Sync();
      return held;
    }
    bool Any(bool value) const {
      if (value) shared_.any.store(true, std::memory_order_relaxed);
      Sync();
      const bool any = shared_.any.load(std::memory_order_relaxed);
      Sync();
      if (team_.index == 0) shared_.any.store(false, std::memory_order_relaxed);
      Sync();
      return any;
    }
    // The others of the block sleep until the first thread has polled again. Threads that poll
    // leave the processors to those that work.
    void Pause() const {
      grid_.pauses_.fetch_add(1, std::memory_order_relaxed);
      for (int i = 0; i < kYields && team_.index == 0; ++i) std::this_thread::yield();
      while (grid_.pauses_ > grid_.most_pauses_) std::this_thread::yield();
    }
    kernels::BlockMemory& memory() const { return shared_.memory; }
    unsigned char* arena() const { return shared_.arena[0].bytes; }
    uint32_t arena_bytes() const { return grid_.shape_.arena_bytes; }

   private:
    static constexpr int kYields = 16;
    HostGrid& grid_;
    Shared& shared_;
    const uint32_t index_;
    const kernels::Team team_;
  };

  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
  const GridShape shape_;
  kernels::CommandQueue& queue_;
  kernels::BlockWords& words_;
  const uint64_t& done_;
  const uint64_t target_;
  std::vector<std::unique_ptr<Shared>> shared_;
  std::atomic<uint64_t> pauses_ = 0, most_pauses_ = kUnlimited;
  std::vector<std::thread> threads_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_KERNELS_HOST_GRID_H_
