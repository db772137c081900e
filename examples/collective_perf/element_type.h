// NCCL's twelve element types as the host sees them: sizes, names, and numbers to and from their
// bits.
#ifndef EXAMPLES_COLLECTIVE_PERF_ELEMENT_TYPE_H_
#define EXAMPLES_COLLECTIVE_PERF_ELEMENT_TYPE_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "nccl.h"

namespace collective_perf {

enum class NumberKind { kUnsigned, kSigned, kFloat };

struct ElementType {
  std::string_view name;   // as nccl-tests prints it
  std::string_view alias;  // another usual name, or empty
  ncclDataType_t nccl;
  size_t bytes;
  NumberKind kind;
  int exponent_bits;  // floats only
  int mantissa_bits;  // floats only, without the hidden one
  // Every integer from 0 to this has an exact value in the type (at most 2^52, which a double holds
  // too).
  double exact_limit;
};

std::span<const ElementType> ElementTypes();

// REQUIRES: `value` is exactly a value of the type.
void Encode(const ElementType& type, double value, std::byte* out);

double Decode(const ElementType& type, const std::byte* in);

}  // namespace collective_perf

#endif  // EXAMPLES_COLLECTIVE_PERF_ELEMENT_TYPE_H_
