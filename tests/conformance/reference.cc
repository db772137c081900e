#include "conformance/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace conformance {
namespace {

// Of the factors of a product, this many ranks contribute a 2 and one more a 3; the others ±1. 2 *
// 2 * 2 * 3 and its parts have exact values in every type.
constexpr int kTwos = 3;
// Limit of values that are only moved or compared.
constexpr double kLargestMoved = 120;
// Large enough to detect lost precision, small enough for exact averages.
constexpr double kLargestSum = 1e6;

bool IsFloat(const Call& call) { return call.type->kind == NumberKind::kFloat; }

}  // namespace

Source Trace(const Call& call, int rank, size_t index) {
  const size_t count = std::max<size_t>(call.count, 1);
  const size_t own_block = count * rank;
  switch (call.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
      return {0, index};
    case Kind::kReduceScatter:
      return {0, own_block + index};
    case Kind::kBroadcast:
      return {call.root, index};
    case Kind::kAllGather:
    case Kind::kGather:
      return {static_cast<int>(index / count), index % count};
    case Kind::kAlltoAll:
      return {static_cast<int>(index / count), own_block + index % count};
    case Kind::kScatter:
      return {call.root, own_block + index};
  }
  return {};
}

uint64_t Scramble(uint64_t value) {
  // The finalizer of splitmix64.
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

double Inputs::At(int rank, size_t index) const {
  const uint64_t dice = Scramble(salt_ ^ Scramble(index) ^ Scramble(~static_cast<uint64_t>(rank)));
  if (call_.reduces() && (call_.op == ncclSum || call_.op == ncclAvg || IsUserOperator(call_.op))) {
    return SumTerm(rank, index, dice);
  }
  if (call_.reduces() && call_.op == ncclProd) return Factor(rank, index, dice);
  const auto largest = static_cast<uint64_t>(std::min(call_.type->exact_limit, kLargestMoved));
  const auto magnitude = static_cast<double>(dice % (largest + 1));
  const bool negative = call_.type->kind != NumberKind::kUnsigned && (dice >> 40) % 2 == 1;
  return negative && magnitude > 0 ? -magnitude : magnitude;
}

// Keeps the sum of all ranks' magnitudes within what the type represents exactly.
double Inputs::SumTerm(int rank, uint64_t index, uint64_t dice) const {
  const double factor = IsUserOperator(call_.op) ? UserFactor(1) : 1;
  const double limit = std::min(call_.type->exact_limit, kLargestSum) / factor;
  const auto share = static_cast<uint64_t>(limit / ranks_);
  double magnitude = 0;
  if (share > 0) {
    magnitude = static_cast<double>(dice % (share + 1));
  } else if ((index + rank) % ranks_ < static_cast<uint64_t>(limit)) {
    magnitude = 1;  // more ranks than units: only some contribute one
  }
  const bool negative = call_.type->kind != NumberKind::kUnsigned && (dice >> 40) % 4 == 1;
  return negative && magnitude > 0 ? -magnitude : magnitude;
}

double Inputs::Factor(int rank, uint64_t index, uint64_t dice) const {
  const auto turn = static_cast<int>((index + rank) % ranks_);
  if (turn < kTwos) return 2;
  if (turn == kTwos) return 3;
  return call_.type->kind != NumberKind::kUnsigned && dice % 2 == 1 ? -1 : 1;
}

double UserFactor(int rank) { return rank % 2 == 1 ? 2 : 1; }

double RoundTo(const ElementType& type, double value) {
  if (value == 0 || type.kind != NumberKind::kFloat) return value;
  const int lowest = 2 - (1 << (type.exponent_bits - 1));
  const int exponent = std::max(std::ilogb(value), lowest);
  // nearbyint rounds ties to even, as the processor's arithmetic does.
  return std::ldexp(std::nearbyint(std::ldexp(value, type.mantissa_bits - exponent)),
                    exponent - type.mantissa_bits);
}

double Expected(const Call& call, const Inputs& inputs, int ranks, int rank, size_t index) {
  const Source source = Trace(call, rank, index);
  if (!call.reduces()) return inputs.At(source.rank, source.index);
  const auto term_of = [&](int other) {
    const double term = inputs.At(other, source.index);
    return IsUserOperator(call.op) ? term * UserFactor(other) : term;
  };
  double result = term_of(0);
  for (int other = 1; other < ranks; ++other) {
    const double term = term_of(other);
    switch (call.op) {
      case ncclProd:
        result *= term;
        break;
      case ncclMax:
        result = std::max(result, term);
        break;
      case ncclMin:
        result = std::min(result, term);
        break;
      default:
        result += term;
    }
  }
  if (call.op == ncclAvg) result /= ranks;
  return call.op == ncclAvg && !IsFloat(call) ? std::trunc(result) : result;
}

double AverageTolerance(const Call& call, int ranks) {
  const bool exact = !call.reduces() || call.op != ncclAvg || !IsFloat(call) ||
                     std::has_single_bit(static_cast<unsigned>(ranks));
  if (exact) return 0;
  const double largest_sum = std::min(call.type->exact_limit, kLargestSum) / ranks;
  const double half_unit = std::ldexp(largest_sum, -call.type->mantissa_bits - 1);
  return (ranks + 2) * half_unit;
}

std::vector<std::byte> Encoded(const ElementType& type, const std::vector<double>& elements) {
  std::vector<std::byte> bytes(elements.size() * type.bytes);
  for (size_t i = 0; i < elements.size(); ++i) {
    collective_perf::Encode(type, elements[i], bytes.data() + i * type.bytes);
  }
  return bytes;
}

}  // namespace conformance
