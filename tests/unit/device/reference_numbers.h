// The expected result of a MemOp, computed element by element without vectors, for the tests of the
// loops. Narrow floats are decoded by definition and encoded by searching the nearest value.
#ifndef MCCS_TESTS_UNIT_DEVICE_REFERENCE_NUMBERS_H_
#define MCCS_TESTS_UNIT_DEVICE_REFERENCE_NUMBERS_H_

#include <cstdint>
#include <vector>

#include "service/device/device.h"

namespace mccs {

// A float of 8 or 16 bits.
class NarrowFormat {
 public:
  // `largest`: bits of the largest finite number. `has_infinity`: the next values are infinity and
  // NaNs; otherwise only NaNs.
  NarrowFormat(int exponent_bits, int mantissa_bits, uint32_t largest, bool has_infinity);

  static const NarrowFormat& Of(DataType type);

  double Decode(uint32_t bits) const;
  // Nearest, ties to even mantissa. Too large: infinity if `to_infinity`, else the largest.
  uint32_t Encode(double value, bool to_infinity) const;
  bool IsNan(uint32_t bits) const;

 private:
  double Magnitude(uint32_t bits) const;

  int exponent_bits_;
  int mantissa_bits_;
  uint32_t largest_;
  bool has_infinity_;
  uint32_t sign_bit_;
};

// One element of the result of `op`, from the bits of the elements of all sources.
uint64_t ReferenceElement(const MemOp& op, const std::vector<uint64_t>& inputs);

// Whether the bits have the same value. NaNs are equal to each other.
bool SameValue(DataType type, uint64_t a, uint64_t b);

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_DEVICE_REFERENCE_NUMBERS_H_
