// Randomness is injected, so that the simulator can seed it.
#ifndef MCCS_BASE_RANDOM_H_
#define MCCS_BASE_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace mccs {

// THREAD: the owning engine only.
class Random {
 public:
  virtual ~Random() = default;
  virtual void Fill(std::span<std::byte> out) = 0;

  uint64_t NextU64() {
    uint64_t value;
    Fill(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
};

// getrandom(2): suitable for secrets.
class SystemRandom final : public Random {
 public:
  void Fill(std::span<std::byte> out) override;
};

// The same seed gives the same bytes. For the simulator and tests only: not suitable for secrets.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : engine_(seed) {}
  void Fill(std::span<std::byte> out) override;

 private:
  std::mt19937_64 engine_;
};

}  // namespace mccs

#endif  // MCCS_BASE_RANDOM_H_
