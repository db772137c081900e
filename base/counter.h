// Numbers written by one thread and read by any: an engine counts, and the metrics server reads
// without a lock and without slowing the engine.
//
// With one writer an addition is a load and a store: no locked instruction, no fence. A reader sees
// each number whole, but two related numbers may be from different moments.
#ifndef MCCS_BASE_COUNTER_H_
#define MCCS_BASE_COUNTER_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace mccs {

// Monotonic, except for Take.
class Counter {
 public:
  // THREAD: the one writer.
  void Add(uint64_t n) { value_.store(value() + n, std::memory_order_relaxed); }
  // REQUIRES: n ≥ value(). THREAD: the one writer.
  void RaiseTo(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  // Returns the value and resets it to 0. THREAD: the one writer. Readers that need the sum of this
  // and the taken value must hold a lock.
  uint64_t Take() {
    const uint64_t was = value();
    value_.store(0, std::memory_order_relaxed);
    return was;
  }
  // THREAD: any. Relaxed, like its stores: it orders no other data.
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

// A number that may rise and fall.
class Gauge {
 public:
  // THREAD: the one writer.
  void Add(int64_t n) { value_.store(value() + n, std::memory_order_relaxed); }
  void Set(int64_t n) { value_.store(n, std::memory_order_relaxed); }
  // THREAD: any. Relaxed, like its stores: it orders no other data.
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

// Adds 1 to a gauge during its lifetime. THREAD: the gauge's writer.
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
