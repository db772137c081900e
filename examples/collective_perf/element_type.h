// NCCL's twelve element types on the host: sizes, names, and conversion of numbers to and from
// their bits.
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
  int mantissa_bits;  // floats only, without the hidden bit
  // Every integer from 0 to this limit is exact in the type (at most 2^52, which is exact in a
  // double too).
  double exact_limit;
};

std::span<const ElementType> ElementTypes();

// REQUIRES: the type represents `value` exactly.
void Encode(const ElementType& type, double value, std::byte* out);

double Decode(const ElementType& type, const std::byte* in);

}  // namespace collective_perf

#endif  // EXAMPLES_COLLECTIVE_PERF_ELEMENT_TYPE_H_
