// The bytes of one input of a fuzz target, read as numbers and parts. Bytes beyond the end are 0,
// so each input is complete, and the length of an input bounds what a target does with it.
//
// THREAD: one.
#ifndef MCCS_TESTS_FUZZ_TARGETS_FUZZ_INPUT_H_
#define MCCS_TESTS_FUZZ_TARGETS_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace mccs {

class FuzzInput {
 public:
  // LIFETIME: `data` outlives this.
  FuzzInput(const uint8_t* data, size_t size) : left_(data, size) {}

  bool empty() const { return left_.empty(); }

  template <typename Int>
  Int Take() {
    Int value{};
    const size_t take = std::min(sizeof(Int), left_.size());
    std::memcpy(&value, left_.data(), take);
    left_ = left_.subspan(take);
    return value;
  }
  uint8_t Byte() { return Take<uint8_t>(); }
  // A number below `bound`, of one byte. REQUIRES: 0 < bound ≤ 256.
  uint32_t Below(uint32_t bound) { return Byte() % bound; }

  // At most `most` bytes.
  std::span<const uint8_t> Bytes(size_t most) {
    const std::span<const uint8_t> taken = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  std::string Rest() {
    const std::span<const uint8_t> rest = Bytes(left_.size());
    return std::string(reinterpret_cast<const char*>(rest.data()), rest.size());
  }

  // Changes up to three numbers of an otherwise valid message: each has an offset, and 1 to 8
  // bytes.
  template <typename Message>
  void Change(Message* message) {
    auto* const bytes = reinterpret_cast<uint8_t*>(message);
    for (uint32_t changes = Below(4); changes > 0; --changes) {
      const size_t at = Take<uint16_t>() % sizeof(Message);
      const std::span<const uint8_t> value =
          Bytes(std::min(size_t{1} << Below(4), sizeof(Message) - at));
      std::memcpy(bytes + at, value.data(), value.size());
    }
  }

 private:
  std::span<const uint8_t> left_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_FUZZ_TARGETS_FUZZ_INPUT_H_
