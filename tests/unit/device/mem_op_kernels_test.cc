// Compares the loops with element-by-element arithmetic, on every instruction set of this machine.
#include "service/device/mem_op.h"

// Selects the instruction sets; must precede Highway, so it is not sorted with the others.
// clang-format off
#include "service/device/kernel_families.h"
// clang-format on

#include <algorithm>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "tests/unit/device/reference_numbers.h"

namespace mccs {
namespace mem_op_kernels_test {

constexpr uint64_t kSeed = 20261121;
constexpr std::byte kUntouched{0xa5};
constexpr size_t kMargin = 128;  // bytes around each buffer that must not change

// The instruction sets to test; Highway keeps the choice until the next one.
std::vector<int64_t> Targets() { return hwy::SupportedAndGeneratedTargets(); }

// Memory for `elements` elements that starts `skew` elements past a line's start.
class Buffer {
 public:
  Buffer(DataType type, size_t elements, size_t skew)
      : size_(SizeOf(type)), bytes_(elements * size_), storage_(bytes_ + 64 * 9 + 2 * kMargin) {
    std::fill(storage_.begin(), storage_.end(), kUntouched);
    const auto start = reinterpret_cast<uintptr_t>(storage_.data()) + kMargin;
    data_ = storage_.data() + kMargin + (64 - start % 64) % 64 + skew * size_;
  }

  std::byte* data() { return data_; }
  uint64_t Element(size_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, data_ + i * size_, size_);
    return bits;
  }
  void Set(size_t i, uint64_t bits) { std::memcpy(data_ + i * size_, &bits, size_); }
  bool MarginsUntouched() const {
    const auto untouched = [](std::byte b) { return b == kUntouched; };
    return std::all_of(data_ - kMargin, data_ + 0, untouched) &&
           std::all_of(data_ + bytes_, data_ + bytes_ + kMargin, untouched);
  }

 private:
  size_t size_;
  size_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* data_;
};

// Random bits, with zeros, infinities, NaNs, subnormals and extremes more often than by chance.
uint64_t RandomElement(DataType type, std::mt19937_64& random) {
  const uint64_t any = random();
  switch (random() % 8) {
    case 0:
      return any & (uint64_t{1} << (8 * SizeOf(type) - 1));  // ±0, least integer
    case 1:
      return any | (uint64_t{0x7f} << (8 * SizeOf(type) - 8));  // infinities, NaNs, large
    case 2:
      return any & ~(uint64_t{0x7f} << (8 * SizeOf(type) - 8));  // small
    default:
      return any;
  }
}

struct Shape {
  size_t sources, destinations, elements, skew;
  bool in_place, stream, scaled;
};

void PrintTo(const Shape& s, std::ostream* os) {
  *os << s.sources << " sources, " << s.destinations << " destinations, " << s.elements
      << " elements, skew " << s.skew << (s.in_place ? ", in place" : "")
      << (s.stream ? ", stream" : "") << (s.scaled ? ", scaled" : "");
}

// More than 8 sources, and more than a tile of each type.
Shape Tiles(DataType type) { return {9, 3, 20'000 / SizeOf(type), 3, true, false, false}; }
Shape StreamedTiles(DataType type) { return {9, 2, 20'000 / SizeOf(type), 2, false, true, true}; }
// Large enough to be prefetched.
Shape LargeTiles(DataType type) { return {10, 2, 66'000 / SizeOf(type), 1, false, false, true}; }

const Shape kShapes[] = {
    {1, 1, 1, 0, false, false, false},    {1, 3, 1000, 1, false, false, false},
    {1, 1, 257, 0, false, true, false},   {1, 2, 333, 1, true, false, true},
    {2, 1, 7, 1, false, false, false},    {2, 2, 1025, 0, true, false, false},
    {2, 2, 1031, 3, false, true, false},  {2, 1, 64, 0, false, true, true},
    {3, 3, 515, 2, true, false, true},    {4, 4, 2051, 5, false, true, true},
    {5, 1, 130, 1, false, false, false},  {8, 8, 300, 0, true, false, false},
    {9, 2, 4100, 1, false, true, true},   {17, 1, 9001, 3, true, false, false},
    {129, 1, 100, 0, false, false, true},
};

class MemOpKernels : public ::testing::TestWithParam<std::tuple<DataType, ReduceOp>> {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  void CheckShape(const Shape& shape, Finish finish, uint64_t divisor, uint64_t seed);
};

class IntegerMemOpKernels : public MemOpKernels {};

void MemOpKernels::CheckShape(const Shape& shape, Finish finish, uint64_t divisor, uint64_t seed) {
  const auto [type, reduce_op] = GetParam();
  std::mt19937_64 random(seed);
  std::vector<Buffer> in, out;
  for (size_t k = 0; k < shape.sources; ++k) {
    in.emplace_back(type, shape.elements, shape.skew + k % 2 * (k % 3));
    for (size_t i = 0; i < shape.elements; ++i) in[k].Set(i, RandomElement(type, random));
  }
  for (size_t k = 0; k < shape.destinations; ++k) {
    out.emplace_back(type, shape.elements, shape.skew);
  }
  std::vector<MemSource> sources(shape.sources);
  // Every other scale is in memory, at odd addresses.
  constexpr size_t kScaleSpacing = 9;
  std::vector<std::byte> scales(shape.sources * kScaleSpacing);
  for (size_t k = 0; k < shape.sources; ++k) {
    sources[k].address = in[k].data();
    sources[k].scaled = shape.scaled && k % 2 == 0;
    sources[k].scale_bits = RandomElement(type, random);
    if (k % 4 != 0) continue;
    sources[k].scale_address = scales.data() + k * kScaleSpacing + 1;
    std::memcpy(scales.data() + k * kScaleSpacing + 1, &sources[k].scale_bits, SizeOf(type));
    sources[k].scale_bits = RandomElement(type, random);
  }
  std::vector<std::byte*> destinations;
  for (size_t k = 0; k < shape.destinations; ++k) {
    destinations.push_back(shape.in_place && k < shape.sources ? in[k].data() : out[k].data());
  }
  MemOp op{.sources = sources,
           .destinations = destinations,
           .elements = shape.elements,
           .type = type,
           .op = reduce_op,
           .finish = finish,
           .divisor = divisor,
           .stream = shape.stream};
  std::vector<MemSource> plain = sources;  // the reference takes scales as bits only
  for (MemSource& source : plain) {
    if (source.scale_address == nullptr) continue;
    source.scale_bits = 0;
    std::memcpy(&source.scale_bits, source.scale_address, SizeOf(type));
  }
  MemOp reference = op;
  reference.sources = plain;
  std::vector<uint64_t> expected(shape.elements);
  for (size_t i = 0; i < shape.elements; ++i) {
    std::vector<uint64_t> inputs;
    for (const Buffer& buffer : in) inputs.push_back(buffer.Element(i));
    expected[i] = ReferenceElement(reference, inputs);
  }
  RunMemOp(op);
  for (size_t k = 0; k < shape.destinations; ++k) {
    const Buffer& result = shape.in_place && k < shape.sources ? in[k] : out[k];
    EXPECT_TRUE(result.MarginsUntouched());
    for (size_t i = 0; i < shape.elements; ++i) {
      ASSERT_TRUE(SameValue(type, result.Element(i), expected[i]))
          << KernelTargetName() << ", seed " << seed << ": " << ::testing::PrintToString(shape)
          << ": element " << i << " of destination " << k << " is " << std::hex << result.Element(i)
          << ", not " << expected[i];
    }
  }
}

TEST_P(MemOpKernels, AgreeWithScalarArithmetic) {
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    uint64_t seed = kSeed;
    for (const Shape& shape : kShapes) CheckShape(shape, Finish::kNone, 1, ++seed);
    const auto [type, op] = GetParam();
    CheckShape(Tiles(type), Finish::kNone, 1, ++seed);
    if (op != ReduceOp::kSum) continue;  // the loops around the operators are the same
    CheckShape(StreamedTiles(type), Finish::kNone, 1, ++seed);
    CheckShape(LargeTiles(type), Finish::kNone, 1, ++seed);
  }
}

TEST_P(IntegerMemOpKernels, DivideTowardsZero) {
  const uint64_t divisors[] = {1, 2, 3, 4, 7, 64, 100, 127, 128, 129, 256, 1u << 31};
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    uint64_t seed = kSeed;
    for (const uint64_t divisor : divisors) {
      for (const Shape& shape : {kShapes[0], kShapes[3], kShapes[5], kShapes[9]}) {
        CheckShape(shape, Finish::kDivide, divisor, ++seed);
      }
    }
    CheckShape(Tiles(std::get<0>(GetParam())), Finish::kDivide, 3, ++seed);
  }
}

std::string CaseName(const ::testing::TestParamInfo<MemOpKernels::ParamType>& info) {
  return std::string(Name(std::get<0>(info.param))) + "_" +
         std::string(Name(std::get<1>(info.param)));
}

constexpr DataType kIntegers[] = {DataType::kInt8,   DataType::kUint8, DataType::kInt32,
                                  DataType::kUint32, DataType::kInt64, DataType::kUint64};
constexpr DataType kFloats[] = {DataType::kFloat16,  DataType::kFloat32,    DataType::kFloat64,
                                DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2};
constexpr ReduceOp kOperators[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax};

INSTANTIATE_TEST_SUITE_P(Integers, MemOpKernels,
                         ::testing::Combine(::testing::ValuesIn(kIntegers),
                                            ::testing::ValuesIn(kOperators)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Floats, MemOpKernels,
                         ::testing::Combine(::testing::ValuesIn(kFloats),
                                            ::testing::ValuesIn(kOperators)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Integers, IntegerMemOpKernels,
                         ::testing::Combine(::testing::ValuesIn(kIntegers),
                                            ::testing::ValuesIn(kOperators)),
                         CaseName);

class Float8s : public ::testing::TestWithParam<DataType> {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  void CheckAllPairs(ReduceOp reduce_op);
};

void Float8s::CheckAllPairs(ReduceOp reduce_op) {
  const DataType type = GetParam();
  const size_t values = 256;
  Buffer a(type, values * values, 0), b(type, values * values, 0), out(type, values * values, 0);
  for (size_t i = 0; i < values * values; ++i) {
    a.Set(i, i / values);
    b.Set(i, i % values);
  }
  const MemSource sources[] = {{.address = a.data()}, {.address = b.data()}};
  std::byte* const destinations[] = {out.data()};
  const MemOp op{.sources = sources,
                 .destinations = destinations,
                 .elements = values * values,
                 .type = type,
                 .op = reduce_op};
  RunMemOp(op);
  for (size_t i = 0; i < values * values; ++i) {
    const uint64_t expected = ReferenceElement(op, {a.Element(i), b.Element(i)});
    ASSERT_TRUE(SameValue(type, out.Element(i), expected))
        << KernelTargetName() << ": " << std::hex << a.Element(i) << " " << Name(reduce_op) << " "
        << b.Element(i) << " is " << out.Element(i) << ", not " << expected;
  }
}

class HalfFloats : public ::testing::TestWithParam<DataType> {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(Float8s, EveryPairHasTheRightResult) {
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
      CheckAllPairs(op);
    }
  }
}

TEST_P(Float8s, EveryNanBecomesCudasNan) {
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    std::byte in{0xff}, out{};
    const MemSource sources[] = {{.address = &in}, {.address = &in}};
    std::byte* const destinations[] = {&out};
    RunMemOp({.sources = sources, .destinations = destinations, .elements = 1, .type = GetParam()});
    EXPECT_EQ(out, std::byte{0x7f});
  }
}

TEST_P(HalfFloats, SurviveAdditionOfNegativeZero) {
  const size_t values = 65536;
  Buffer in(GetParam(), values, 0), zero(GetParam(), values, 0), out(GetParam(), values, 0);
  for (size_t i = 0; i < values; ++i) {
    in.Set(i, i);
    zero.Set(i, 0x8000);
  }
  for (const int64_t target : Targets()) {
    hwy::SetSupportedTargetsForTest(target);
    const MemSource sources[] = {{.address = in.data()}, {.address = zero.data()}};
    std::byte* const destinations[] = {out.data()};
    RunMemOp(
        {.sources = sources, .destinations = destinations, .elements = values, .type = GetParam()});
    for (size_t i = 0; i < values; ++i) {
      ASSERT_TRUE(SameValue(GetParam(), out.Element(i), i)) << KernelTargetName() << std::hex << i;
    }
  }
}

std::string TypeName(const ::testing::TestParamInfo<DataType>& info) {
  return std::string(Name(info.param));
}

INSTANTIATE_TEST_SUITE_P(EveryType, Float8s,
                         ::testing::Values(DataType::kFloat8e4m3, DataType::kFloat8e5m2), TypeName);
INSTANTIATE_TEST_SUITE_P(EveryType, HalfFloats,
                         ::testing::Values(DataType::kFloat16, DataType::kBfloat16), TypeName);

// The sum of many float16 is rounded once: with rounding at each step, 2048 + 1 + 1 … would not
// grow.
TEST(MemOpKernelsRounding, HappensOnceAtTheEnd) {
  const uint16_t big = 0x6800, one = 0x3c00;  // 2048, 1
  uint16_t out = 0;
  std::vector<MemSource> sources(3, MemSource{.address = reinterpret_cast<const std::byte*>(&one)});
  sources[0].address = reinterpret_cast<const std::byte*>(&big);
  std::byte* const destinations[] = {reinterpret_cast<std::byte*>(&out)};
  RunMemOp({.sources = sources,
            .destinations = destinations,
            .elements = 1,
            .type = DataType::kFloat16});
  EXPECT_EQ(out, 0x6801);  // 2050
}

TEST(MemOpKernelsTarget, SomeSetIsInUse) { EXPECT_FALSE(KernelTargetName().empty()); }

}  // namespace mem_op_kernels_test
}  // namespace mccs
