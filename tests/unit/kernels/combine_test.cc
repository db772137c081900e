// Compares Combine bit for bit with RunMemOp: the loops of the host, and those of the GPU, which
// host code can call, too.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/elements.h"
#include "kernels/host_combine.h"
#include "kernels/vector_combine.h"
#include "service/device/mem_op.h"

namespace mccs {
namespace combine_test {

using kernels::ElementOp;
using kernels::Source;
using kernels::Team;

constexpr uint64_t kSeed = 20261126;
constexpr unsigned char kUntouched = 0xa5;
constexpr size_t kMargin = 64;  // bytes around each buffer that must not change

// The loops to run: those of the GPU, or the host's for one instruction set.
struct Form {
  bool vectors;
  uint32_t set;
};

std::vector<Form> Forms() {
  std::vector<Form> forms = {{true, 0}};
  for (uint32_t set = 0; set < kernels::HostInstructionSets(); ++set) forms.push_back({false, set});
  return forms;
}

void PrintTo(const Form& form, std::ostream* os) {
  form.vectors ? *os << "vectors" : *os << "host, instruction set " << form.set;
}

// All threads of a team, one after the other.
void RunTeam(const Form& form, const ElementOp& op, const std::vector<Source>& sources,
             const std::vector<unsigned char*>& destinations, uint64_t elements, uint32_t threads) {
  const auto source_count = static_cast<uint32_t>(sources.size());
  const auto destination_count = static_cast<uint32_t>(destinations.size());
  for (uint32_t index = 0; index < threads; ++index) {
    const Team team{index, threads};
    if (form.vectors) {
      kernels::CombineByVectors(op, sources.data(), source_count, destinations.data(),
                                destination_count, elements, team);
    } else {
      kernels::CombineOnHost(form.set, op, sources.data(), source_count, destinations.data(),
                             destination_count, elements, team);
    }
  }
}

// `elements` elements that start `skew` elements past an address that 64 divides.
class Buffer {
 public:
  Buffer(DataType type, size_t elements, size_t skew)
      : size_(SizeOf(type)), storage_(elements * size_ + 64 + skew * size_ + 2 * kMargin) {
    std::fill(storage_.begin(), storage_.end(), kUntouched);
    const auto start = reinterpret_cast<uintptr_t>(storage_.data()) + kMargin;
    offset_ = kMargin + (64 - start % 64) % 64 + skew * size_;
  }
  unsigned char* data() { return storage_.data() + offset_; }
  void Set(size_t i, uint64_t bits) { std::memcpy(data() + i * size_, &bits, size_); }
  uint64_t Element(size_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, storage_.data() + offset_ + i * size_, size_);
    return bits;
  }
  // Everything but the first `elements` elements.
  bool MarginsUntouched(size_t elements) const {
    const auto untouched = [](unsigned char c) { return c == kUntouched; };
    const auto begin = storage_.begin() + static_cast<ptrdiff_t>(offset_);
    const auto end = begin + static_cast<ptrdiff_t>(elements * size_);
    return std::all_of(storage_.begin(), begin, untouched) &&
           std::all_of(end, storage_.end(), untouched);
  }

 private:
  size_t size_;
  std::vector<unsigned char> storage_;
  size_t offset_;
};

bool IsNan(DataType type, uint64_t bits) {
  const auto above = [bits](uint64_t sign, uint64_t infinity) {
    return (bits & (sign - 1)) > infinity;
  };
  switch (type) {
    case DataType::kFloat16:
      return above(0x8000, 0x7c00);
    case DataType::kBfloat16:
      return above(0x8000, 0x7f80);
    case DataType::kFloat32:
      return above(0x80000000, 0x7f800000);
    case DataType::kFloat64:
      return above(uint64_t{1} << 63, uint64_t{0x7ff} << 52);
    case DataType::kFloat8e4m3:
      return above(0x80, 0x7e);
    case DataType::kFloat8e5m2:
      return above(0x80, 0x7c);
    default:
      return false;
  }
}

// Random bits, with zeros, infinities, NaNs, subnormals and extremes more often than by chance.
uint64_t RandomElement(DataType type, std::mt19937_64& random) {
  const uint64_t any = random();
  const size_t bits = 8 * SizeOf(type);
  switch (random() % 8) {
    case 0:
      return any & (uint64_t{1} << (bits - 1));  // ±0, least integer
    case 1:
      return any | (uint64_t{0x7f} << (bits - 8));  // infinities, NaNs, large
    case 2:
      return any & ~(uint64_t{0x7f} << (bits - 8));  // small
    default:
      return any;
  }
}

struct Shape {
  size_t sources, destinations;
  bool scaled, in_place;
  uint64_t divisor;  // 0: no division
};

struct Layout {
  size_t elements;
  size_t skew;       // of all buffers
  size_t skew_step;  // more with each source; the destinations have the first one's
};

void PrintTo(const Shape& s, std::ostream* os) {
  *os << s.sources << " sources, " << s.destinations << " destinations"
      << (s.scaled ? ", scaled" : "") << (s.in_place ? ", in place" : "") << ", divisor "
      << s.divisor;
}

void PrintTo(const Layout& l, std::ostream* os) {
  *os << l.elements << " elements, skew " << l.skew << " + k·" << l.skew_step;
}

// One call: its inputs, and RunMemOp's result.
class Case {
 public:
  Case(DataType type, ReduceOp op, const Shape& shape, const Layout& layout, uint64_t seed)
      : op_{type, op, shape.divisor != 0, std::max<uint64_t>(shape.divisor, 1)},
        shape_(shape),
        layout_(layout) {
    std::mt19937_64 random(seed);
    for (size_t k = 0; k < shape.sources; ++k) {
      inputs_.emplace_back(type, layout.elements, layout.skew + k * layout.skew_step);
      for (size_t i = 0; i < layout.elements; ++i) inputs_[k].Set(i, RandomElement(type, random));
    }
    // Every other scale is in memory, at any address.
    scales_.resize(shape.sources * kScaleSpacing);
    for (size_t k = 0; k < shape.sources; ++k) {
      const uint64_t scale = RandomElement(type, random);
      Source source{nullptr, scale, nullptr, shape.scaled && k % 3 != 1};
      if (k % 2 == 0) {
        source.scale_address = scales_.data() + k * kScaleSpacing;
        std::memcpy(scales_.data() + k * kScaleSpacing, &scale, SizeOf(type));
        source.scale_bits = ~scale;
      }
      sources_.push_back(source);
    }
    expected_ = inputs_;
    expected_outputs_ = Outputs();
    RunReference();
  }

  // `threads` in a team.
  void Check(const Form& form, uint32_t threads) const {
    std::vector<Buffer> inputs = inputs_;
    std::vector<Buffer> outputs = Outputs();
    std::vector<Source> sources = sources_;
    for (size_t k = 0; k < sources.size(); ++k) sources[k].address = inputs[k].data();
    RunTeam(form, op_, sources, Destinations(inputs, outputs), layout_.elements, threads);
    for (size_t k = 0; k < inputs.size(); ++k) {
      ExpectSame(inputs[k], expected_[k], form, threads);
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      ExpectSame(outputs[k], expected_outputs_[k], form, threads);
    }
  }

 private:
  static constexpr size_t kScaleSpacing = 9;

  std::vector<Buffer> Outputs() const {
    std::vector<Buffer> outputs;
    for (size_t k = 0; k < shape_.destinations; ++k) {
      outputs.emplace_back(op_.type, layout_.elements, layout_.skew);
    }
    return outputs;
  }

  // In place: the last source is a destination, too.
  std::vector<unsigned char*> Destinations(std::vector<Buffer>& inputs,
                                           std::vector<Buffer>& outputs) const {
    std::vector<unsigned char*> destinations;
    for (Buffer& output : outputs) destinations.push_back(output.data());
    if (shape_.in_place) destinations[0] = inputs.back().data();
    return destinations;
  }

  void RunReference() {
    std::vector<MemSource> sources;
    for (size_t k = 0; k < sources_.size(); ++k) {
      sources.push_back(
          {.address = reinterpret_cast<const std::byte*>(expected_[k].data()),
           .scaled = sources_[k].scaled,
           .scale_bits = sources_[k].scale_bits,
           .scale_address = reinterpret_cast<const std::byte*>(sources_[k].scale_address)});
    }
    std::vector<std::byte*> destinations;
    for (unsigned char* to : Destinations(expected_, expected_outputs_)) {
      destinations.push_back(reinterpret_cast<std::byte*>(to));
    }
    RunMemOp({.sources = sources,
              .destinations = destinations,
              .elements = layout_.elements,
              .type = op_.type,
              .op = op_.op,
              .finish = op_.divides ? Finish::kDivide : Finish::kNone,
              .divisor = op_.divisor});
  }

  // A sum or product of two NaNs is any of them (docs/decisions/0003-numerics.md), in the types
  // that keep a NaN's bits.
  bool AnyNan() const {
    return (op_.op == ReduceOp::kSum || op_.op == ReduceOp::kProd || shape_.scaled) &&
           (op_.type == DataType::kFloat16 || op_.type == DataType::kFloat32 ||
            op_.type == DataType::kFloat64);
  }

  void ExpectSame(const Buffer& result, const Buffer& expected, const Form& form,
                  uint32_t threads) const {
    EXPECT_TRUE(result.MarginsUntouched(layout_.elements));
    for (size_t i = 0; i < layout_.elements; ++i) {
      const uint64_t bits = result.Element(i), wanted = expected.Element(i);
      if (AnyNan() && IsNan(op_.type, bits) && IsNan(op_.type, wanted)) continue;
      ASSERT_EQ(bits, wanted) << std::hex << bits << ", not " << wanted << std::dec
                              << " at element " << i << ": " << Name(op_.type) << " "
                              << Name(op_.op) << ", " << ::testing::PrintToString(shape_) << ", "
                              << ::testing::PrintToString(layout_) << ", "
                              << ::testing::PrintToString(form) << ", " << threads << " threads";
    }
  }

  ElementOp op_;
  Shape shape_;
  Layout layout_;
  std::vector<Buffer> inputs_, expected_, expected_outputs_;
  std::vector<Source> sources_;
  std::vector<unsigned char> scales_;
};

constexpr size_t kLengths[] = {0, 1, 7, 16, 17, 1000};
constexpr uint32_t kTeams[] = {1, 3, 32};
// Aligned; one element past it; sources that differ, by one element and by 4 bytes or more.
constexpr std::pair<size_t, size_t> kSkews[] = {{0, 0}, {1, 0}, {1, 1}, {3, 4}};

class CombineAsMemOp : public ::testing::TestWithParam<std::tuple<DataType, ReduceOp>> {
 protected:
  void CheckShape(const Shape& shape, uint64_t seed) {
    const auto [type, op] = GetParam();
    for (const size_t elements : kLengths) {
      for (const auto& [skew, step] : kSkews) {
        const Case combine(type, op, shape, {elements, skew, step}, ++seed);
        for (const uint32_t threads : kTeams) {
          for (const Form& form : Forms()) combine.Check(form, threads);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
};

TEST_P(CombineAsMemOp, HasTheSameBits) {
  const Shape shapes[] = {
      {1, 1, false, false, 0}, {1, 3, false, true, 0},   {1, 1, true, false, 0},
      {2, 1, false, false, 0}, {2, 2, false, true, 0},   {3, 1, false, false, 0},
      {3, 2, true, true, 0},   {8, 1, false, false, 0},  {8, 2, true, false, 0},
      {20, 1, true, true, 0},  {20, 3, false, false, 0},
  };
  uint64_t seed = kSeed;
  for (const Shape& shape : shapes) CheckShape(shape, seed += 1000);
}

TEST_P(CombineAsMemOp, HasTheSameBitsForAllSourcesOfAHost) {
  const auto [type, op] = GetParam();
  const Case combine(type, op, {kMaxMemOpSources, 1, true, false, 0}, {333, 1, 0}, kSeed);
  for (const Form& form : Forms()) combine.Check(form, 32);
}

TEST_P(CombineAsMemOp, HasTheSameBitsForLongBuffers) {
  const auto [type, op] = GetParam();
  for (const size_t sources : {1, 2, 4}) {
    const Case combine(type, op, {sources, 2, false, false, 0}, {20'011, 3, 0}, kSeed);
    for (const Form& form : Forms()) combine.Check(form, form.vectors ? 96 : 3);
  }
}

class CombineDivision : public CombineAsMemOp {};

TEST_P(CombineDivision, HasTheSameBits) {
  uint64_t seed = kSeed;
  for (const uint64_t divisor : {1u, 2u, 3u, 7u, 64u, 100u, 127u, 128u, 129u, 256u, 1u << 31}) {
    CheckShape({2, 2, false, true, divisor}, seed += 1000);
  }
  CheckShape({1, 1, false, false, 3}, seed += 1000);
  CheckShape({20, 1, true, false, 20}, seed += 1000);
  CheckShape({2, 1, false, false, uint64_t{1} << 32}, seed += 1000);
  CheckShape({2, 1, false, false, (uint64_t{1} << 40) + 1}, seed += 1000);
}

constexpr DataType kIntegers[] = {DataType::kInt8,   DataType::kUint8, DataType::kInt32,
                                  DataType::kUint32, DataType::kInt64, DataType::kUint64};
constexpr DataType kFloats[] = {DataType::kFloat16,  DataType::kFloat32,    DataType::kFloat64,
                                DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2};
constexpr ReduceOp kOperators[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax};

std::string CaseName(const ::testing::TestParamInfo<CombineAsMemOp::ParamType>& info) {
  return std::string(Name(std::get<0>(info.param))) + "_" +
         std::string(Name(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Integers, CombineAsMemOp,
                         ::testing::Combine(::testing::ValuesIn(kIntegers),
                                            ::testing::ValuesIn(kOperators)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Floats, CombineAsMemOp,
                         ::testing::Combine(::testing::ValuesIn(kFloats),
                                            ::testing::ValuesIn(kOperators)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Integers, CombineDivision,
                         ::testing::Combine(::testing::ValuesIn(kIntegers),
                                            ::testing::ValuesIn(kOperators)),
                         CaseName);

// Two sources of one type, and RunMemOp's bits.
class CombinePairs : public ::testing::TestWithParam<std::tuple<DataType, ReduceOp>> {
 protected:
  void ExpectSameBits(const std::vector<std::pair<uint64_t, uint64_t>>& pairs) {
    const auto [type, reduce_op] = GetParam();
    const size_t n = pairs.size();
    Buffer a(type, n, 0), b(type, n, 0), expected(type, n, 0);
    for (size_t i = 0; i < n; ++i) {
      a.Set(i, pairs[i].first);
      b.Set(i, pairs[i].second);
    }
    const MemSource from[] = {{.address = reinterpret_cast<std::byte*>(a.data())},
                              {.address = reinterpret_cast<std::byte*>(b.data())}};
    std::byte* const to[] = {reinterpret_cast<std::byte*>(expected.data())};
    RunMemOp({.sources = from, .destinations = to, .elements = n, .type = type, .op = reduce_op});
    const ElementOp op{type, reduce_op, false, 1};
    const std::vector<Source> sources = {{a.data(), 0, nullptr, false},
                                         {b.data(), 0, nullptr, false}};
    for (const Form& form : Forms()) {
      Buffer result(type, n, 0);
      RunTeam(form, op, sources, {result.data()}, n, 1);
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(result.Element(i), expected.Element(i))
            << std::hex << pairs[i].first << " " << Name(reduce_op) << " " << pairs[i].second;
      }
    }
  }
};

// All pairs of 8 bits. With 16 bits, all values and some partners.
TEST_P(CombinePairs, OfNarrowFloatsHaveTheSameBits) {
  const DataType type = std::get<0>(GetParam());
  std::vector<uint64_t> partners;
  uint64_t values = 256;
  if (SizeOf(type) == 1) {
    for (uint64_t b = 0; b < values; ++b) partners.push_back(b);
  } else {
    values = 65536;
    for (const uint64_t b : {0x0000, 0x8000, 0x0001, 0x3c00, 0x3f80, 0x7bff, 0x7c00, 0xfc00, 0x7f80,
                             0xff7f, 0x1234, 0x9876}) {
      if (!IsNan(type, b)) partners.push_back(b);
    }
  }
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (const uint64_t b : partners) {
    for (uint64_t a = 0; a < values; ++a) pairs.emplace_back(a, b);
  }
  ExpectSameBits(pairs);
}

std::string PairName(const ::testing::TestParamInfo<CombinePairs::ParamType>& info) {
  return std::string(Name(std::get<0>(info.param))) + "_" +
         std::string(Name(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(
    NarrowFloats, CombinePairs,
    ::testing::Combine(::testing::Values(DataType::kFloat16, DataType::kBfloat16,
                                         DataType::kFloat8e4m3, DataType::kFloat8e5m2),
                       ::testing::ValuesIn(kOperators)),
    PairName);

// One NaN of each sign, quiet and signalling, among numbers, infinities, zeros and subnormals.
class CombineNans : public CombinePairs {};

TEST_P(CombineNans, KeepTheSameBitsNextToANumber) {
  const bool wide = std::get<0>(GetParam()) == DataType::kFloat64;
  const auto bits = [wide](float f) {
    const double d = f;
    uint64_t all = 0;
    wide ? std::memcpy(&all, &d, sizeof(d)) : std::memcpy(&all, &f, sizeof(f));
    return all;
  };
  const uint64_t nans[] = {
      wide ? 0x7ff8000000000123u : 0x7fc00123u, wide ? 0x7ff0000000000123u : 0x7f800123u,
      wide ? 0xfff8000000000001u : 0xffc00001u, wide ? 0xfff0000000000001u : 0xff800001u};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (const float number : {0.0f, -0.0f, 1.0f, -2.5f, kInfinity, -kInfinity}) {
    for (const uint64_t nan : nans) {
      pairs.emplace_back(bits(number), nan);
      pairs.emplace_back(nan, bits(number));
    }
    for (const float other : {0.0f, -0.0f, kInfinity, -kInfinity, 1e-30f}) {
      pairs.emplace_back(bits(number), bits(other));
    }
    pairs.emplace_back(bits(number), 1);  // the smallest subnormal
  }
  ExpectSameBits(pairs);
}

INSTANTIATE_TEST_SUITE_P(WideFloats, CombineNans,
                         ::testing::Combine(::testing::Values(DataType::kFloat32,
                                                              DataType::kFloat64),
                                            ::testing::ValuesIn(kOperators)),
                         PairName);

TEST(CombineRounding, HappensOnceAtTheEnd) {
  const uint16_t big = 0x6800, one = 0x3c00;  // 2048, 1
  const auto* big_bytes = reinterpret_cast<const unsigned char*>(&big);
  const auto* one_bytes = reinterpret_cast<const unsigned char*>(&one);
  for (const Form& form : Forms()) {
    uint16_t out = 0;
    const std::vector<Source> sources = {{big_bytes, 0, nullptr, false},
                                         {one_bytes, 0, nullptr, false},
                                         {one_bytes, 0, nullptr, false}};
    RunTeam(form, {DataType::kFloat16, ReduceOp::kSum, false, 1}, sources,
            {reinterpret_cast<unsigned char*>(&out)}, 1, 1);
    EXPECT_EQ(out, 0x6801);  // 2050
  }
}

TEST(CombineOfTheHost, AddsTwoNumbers) {
  const float one = 1, two = 2;
  float sum = 0;
  unsigned char* const to = reinterpret_cast<unsigned char*>(&sum);
  const Source sources[] = {{reinterpret_cast<const unsigned char*>(&one), 0, nullptr, false},
                            {reinterpret_cast<const unsigned char*>(&two), 0, nullptr, false}};
  kernels::Combine({DataType::kFloat32, ReduceOp::kSum, false, 1}, sources, 2, &to, 1, 1, {0, 1});
  EXPECT_EQ(sum, 3);
}

// A large buffer and many threads: no element is left out or written twice.
TEST(CombineTeam, OfSeveralBlocksDividesTheElements) {
  constexpr size_t kElements = 5'003;
  std::vector<uint32_t> in(kElements), sum(kElements, 1);
  for (size_t i = 0; i < kElements; ++i) in[i] = static_cast<uint32_t>(i * 7);
  const auto* from = reinterpret_cast<const unsigned char*>(in.data());
  auto* to = reinterpret_cast<unsigned char*>(sum.data());
  for (const Form& form : Forms()) {
    std::fill(sum.begin(), sum.end(), 1);
    // In place: an element that two threads process is added twice.
    RunTeam(form, {DataType::kUint32, ReduceOp::kSum, false, 1},
            {{to, 0, nullptr, false}, {from, 0, nullptr, false}}, {to}, kElements, 768);
    for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(sum[i], in[i] + 1) << i;
  }
}

}  // namespace combine_test
}  // namespace mccs
