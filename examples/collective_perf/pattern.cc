#include "collective_perf/pattern.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace collective_perf {
namespace {

// The maximum number of factors of two in a product: the signed 8-bit integer holds 2^6.
constexpr int kMaxFactorsOfTwo = 6;

// SplitMix64's finaliser: adjacent ranks and indices give unrelated numbers.
uint64_t Mix(uint64_t rank, uint64_t index) {
  uint64_t x = (rank + 1) * 0x9E3779B97F4A7C15u + index * 0xD1B54A32D192ED03u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

double UpTo(double limit, uint64_t random) {
  return static_cast<double>(random % (static_cast<uint64_t>(limit) + 1));
}

}  // namespace

PeriodicData::PeriodicData(const ElementType& type, const std::vector<double>& values,
                           double tolerance)
    : type_(type), tolerance_(tolerance), values_(values), encoded_(values.size() * type.bytes) {
  if (tolerance_ > 0)
    return;  // compared as numbers: the type need not represent the expected values
  for (size_t i = 0; i < values.size(); ++i) Encode(type, values[i], &encoded_[i * type.bytes]);
}

template <typename Visit>
void PeriodicData::ForEachPiece(size_t first_index, size_t count, Visit visit) const {
  size_t done = 0;
  while (done < count) {
    size_t phase = (first_index + done) % kPeriod;
    size_t piece = std::min(count - done, kPeriod - phase);
    visit(done * type_.bytes, phase * type_.bytes, piece * type_.bytes);
    done += piece;
  }
}

void PeriodicData::Fill(std::byte* out, size_t first_index, size_t count) const {
  ForEachPiece(first_index, count, [&](size_t to, size_t from, size_t bytes) {
    std::memcpy(out + to, &encoded_[from], bytes);
  });
}

size_t PeriodicData::CountWrong(const std::byte* data, size_t first_index, size_t count) const {
  size_t wrong = 0;
  ForEachPiece(first_index, count, [&](size_t at, size_t phase, size_t bytes) {
    if (tolerance_ == 0 && std::memcmp(data + at, &encoded_[phase], bytes) == 0) return;
    for (size_t i = 0; i < bytes; i += type_.bytes) {
      double expected = values_[(phase + i) / type_.bytes];
      double found = Decode(type_, data + at + i);
      // NaN fails both comparisons.
      wrong += !(std::fabs(found - expected) <= tolerance_ * std::fabs(expected));
    }
  });
  return wrong;
}

Pattern::Pattern(const ElementType& type, std::optional<ReductionOp> reduction, int ranks)
    : type_(type), reduction_(reduction), ranks_(ranks) {}

PeriodicData Pattern::Input(int rank) const {
  std::vector<double> values(kPeriod);
  for (size_t i = 0; i < kPeriod; ++i) values[i] = InputValue(rank, i);
  return PeriodicData(type_, values);
}

PeriodicData Pattern::Reduced() const {
  std::vector<double> values(kPeriod);
  for (size_t i = 0; i < kPeriod; ++i) values[i] = ReducedValue(i);
  bool rounded = reduction_->nccl == ncclAvg && type_.kind == NumberKind::kFloat &&
                 !std::has_single_bit(static_cast<unsigned>(ranks_));
  double half_unit = std::ldexp(1.0, -type_.mantissa_bits - 1);
  return PeriodicData(type_, values, rounded ? (ranks_ + 2) * half_unit : 0);
}

double Pattern::InputValue(int rank, size_t index) const {
  const uint64_t random = Mix(rank, index);
  const int turn = static_cast<int>((rank + index) % ranks_);
  const bool negative = type_.kind != NumberKind::kUnsigned && (random >> 63) != 0;
  if (!reduction_ || reduction_->nccl == ncclMin || reduction_->nccl == ncclMax) {
    double magnitude = UpTo(type_.exact_limit, random);
    // Zero has one sign only, so that equal values have equal bits.
    return negative && magnitude != 0 ? -magnitude : magnitude;
  }
  if (reduction_->nccl == ncclProd) {
    double magnitude = turn < kMaxFactorsOfTwo && (random & 1) != 0 ? 2 : 1;
    return negative ? -magnitude : magnitude;
  }
  // Sum and average: the sum of all inputs stays within the exact integers, in any order of
  // addition. With more ranks than this limit, only some ranks contribute per element, in turn.
  const double limit = std::floor(type_.exact_limit / (reduction_->scaled ? kLargestFactor : 1));
  double share = std::floor(limit / ranks_);
  double magnitude = share >= 1 ? UpTo(share, random) : (turn < limit ? 1 : 0);
  return negative && reduction_->nccl == ncclSum && magnitude != 0 ? -magnitude : magnitude;
}

double Pattern::ReducedValue(size_t index) const {
  double result = Factor(0) * InputValue(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double input = Factor(rank) * InputValue(rank, index);
    switch (reduction_->nccl) {
      case ncclProd:
        result *= input;
        break;
      case ncclMin:
        result = std::min(result, input);
        break;
      case ncclMax:
        result = std::max(result, input);
        break;
      default:
        result += input;
        break;
    }
  }
  if (reduction_->nccl != ncclAvg) return result;
  result /= ranks_;
  return type_.kind == NumberKind::kFloat ? result : std::floor(result);
}

}  // namespace collective_perf
