// Numbers that one thread keeps and any thread may look at: an engine counts, and whoever serves
// its metrics reads, without a lock and without the engine's taking notice.
//
// With one writer an addition is a load and a store: no locked instruction, no fence. A reader sees
// each number whole, and perhaps one of two that belong together before the other.
#ifndef MCCS_BASE_COUNTER_H_
#define MCCS_BASE_COUNTER_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace mccs {

// Only grows, until it is taken.
class Counter {
 public:
  // THREAD: the one writer.
  void Add(uint64_t n) { value_.store(value() + n, std::memory_order_relaxed); }
  // To a number that is not smaller. THREAD: the one writer.
  void RaiseTo(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  // What it was; it counts from 0 again. THREAD: the one writer. Whoever reads what is taken beside
  // it looks at both under one lock.
  uint64_t Take() {
    const uint64_t was = value();
    value_.store(0, std::memory_order_relaxed);
    return was;
  }
  // THREAD: any. Relaxed, as its stores: it guards nothing.
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

// Goes up and down.
class Gauge {
 public:
  // THREAD: the one writer.
  void Add(int64_t n) { value_.store(value() + n, std::memory_order_relaxed); }
  void Set(int64_t n) { value_.store(n, std::memory_order_relaxed); }
  // THREAD: any. Relaxed, as its stores: it guards nothing.
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

// One of those that a gauge counts, for as long as it lives. THREAD: the gauge's writer.
// LIFETIME: the gauge outlives it.
class GaugeShare {
 public:
  GaugeShare() = default;
  explicit GaugeShare(Gauge& gauge) : gauge_(&gauge) { gauge_->Add(1); }
  GaugeShare(GaugeShare&& other) noexcept : gauge_(std::exchange(other.gauge_, nullptr)) {}
  GaugeShare& operator=(GaugeShare&& other) noexcept {
    std::swap(gauge_, other.gauge_);
    other.Leave();
    return *this;
  }
  ~GaugeShare() { Leave(); }

 private:
  void Leave() {
    if (gauge_ != nullptr) gauge_->Add(-1);
    gauge_ = nullptr;
  }

  Gauge* gauge_ = nullptr;
};

}  // namespace mccs

#endif  // MCCS_BASE_COUNTER_H_
