// Sums in which each rank multiplies its input by its own factor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace pre_mul_sum_test {

constexpr uint64_t kCount = 5000;
constexpr size_t kScalarOffset = 3;  // factors are at unaligned addresses

// A rank's registered buffers.
template <typename T>
struct Buffers {
  std::vector<T> input, output;
  std::vector<std::byte> scalar = std::vector<std::byte>(64);
};

template <typename T>
class ScaledJob {
 public:
  ScaledJob(SimWorld& world, const std::vector<int>& hosts, DataType type)
      : world_(world), job_(world, hosts, 64), type_(type), buffers_(hosts.size()) {
    formed_ = job_.Form();
    for (int r = 0; r < job_.ranks(); ++r) {
      Buffers<T>& own = buffers_[static_cast<size_t>(r)];
      for (uint64_t i = 0; i < kCount * hosts.size(); ++i) own.input.push_back(Input(r, i));
      own.output.resize(own.input.size());
      Register(r, own.input.data(), own.input.size() * sizeof(T));
      Register(r, own.output.data(), own.output.size() * sizeof(T));
      Register(r, own.scalar.data(), own.scalar.size());
    }
    world_.RunFor(kNsPerMs);
  }

  static T Input(int r, uint64_t i) { return static_cast<T>((i * 7 + uint64_t(r) * 5) % 50); }
  // Even ranks pass it in the record, odd ranks in memory.
  static T Factor(int r) { return static_cast<T>(2 * r + 3); }

  void SetFactor(int r, T factor) {
    std::memcpy(buffers_[static_cast<size_t>(r)].scalar.data() + kScalarOffset, &factor,
                sizeof(factor));
  }

  void Post(int r, OpKind kind, uint64_t count, ReduceOp redop = ReduceOp::kPreMulSum) {
    Buffers<T>& own = buffers_[static_cast<size_t>(r)];
    SimCall call{.kind = kind,
                 .type = type_,
                 .redop = redop,
                 .count = count,
                 .send = {BufferAt(r, own.input.data()), 0, 0},
                 .recv = {BufferAt(r, own.output.data()), 0, 0}};
    SetFactor(r, Factor(r));
    if (r % 2 == 0) {
      const T factor = Factor(r);
      std::memcpy(&call.scalar, &factor, sizeof(factor));
    } else {
      call.scalar_buffer = {BufferAt(r, own.scalar.data()), 0, kScalarOffset};
    }
    job_.tenant(r).Post(job_.rank(r), call);
  }

  static T Expected(int ranks, uint64_t i) {
    T sum{};
    for (int r = 0; r < ranks; ++r) sum = static_cast<T>(sum + Input(r, i) * Factor(r));
    return sum;
  }

  bool formed() const { return formed_; }
  SimJob& job() { return job_; }
  const T& Output(int r, uint64_t i) { return buffers_[static_cast<size_t>(r)].output[i]; }

 private:
  void Register(int r, void* memory, size_t bytes) {
    job_.tenant(r).Register(static_cast<std::byte*>(memory), bytes);
  }
  uint32_t BufferAt(int r, const void* memory) {
    return job_.tenant(r).BufferAt(static_cast<const std::byte*>(memory));
  }

  SimWorld& world_;
  SimJob job_;
  const DataType type_;
  std::vector<Buffers<T>> buffers_;
  bool formed_ = false;
};

template <typename T>
void CheckEveryReducingKind(const std::vector<int>& hosts, DataType type) {
  SimWorld world({.seed = 21, .hosts = 3, .channels = 2});
  ScaledJob<T> scaled(world, hosts, type);
  ASSERT_TRUE(scaled.formed());
  const int ranks = scaled.job().ranks();
  for (OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kReduce}) {
    for (int r = 0; r < ranks; ++r) scaled.Post(r, kind, kCount);
    ASSERT_TRUE(world.RunUntil([&] { return scaled.job().Done(); })) << Name(kind);
    for (int r = 0; r < (kind == OpKind::kReduce ? 1 : ranks); ++r) {
      const uint64_t first = kind == OpKind::kReduceScatter ? kCount * static_cast<uint64_t>(r) : 0;
      for (uint64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(scaled.Output(r, i), (ScaledJob<T>::Expected(ranks, first + i)))
            << Name(kind) << " of " << Name(type) << ", rank " << r << ", element " << i;
      }
    }
  }
}

TEST(SimPreMulSum, EachRankScalesItsOwnInput) {
  for (const std::vector<int>& hosts :
       std::vector<std::vector<int>>{{0}, {0, 0}, {0, 1}, {0, 0, 1}, {1, 0, 2, 2}}) {
    CheckEveryReducingKind<float>(hosts, DataType::kFloat32);
    CheckEveryReducingKind<int8_t>(hosts, DataType::kInt8);  // products and sums wrap
    CheckEveryReducingKind<uint64_t>(hosts, DataType::kUint64);
  }
}

TEST(SimPreMulSum, FactorInMemoryIsReadWhenTheOperationRuns) {
  SimWorld world({.seed = 22});
  ScaledJob<float> scaled(world, {0, 0}, DataType::kFloat32);
  ASSERT_TRUE(scaled.formed());
  scaled.Post(1, OpKind::kAllReduce, kCount);
  world.RunFor(kNsPerMs);
  scaled.SetFactor(1, 0.5f);  // before the other rank posts
  scaled.Post(0, OpKind::kAllReduce, kCount);
  ASSERT_TRUE(world.RunUntil([&] { return scaled.job().Done(); }));
  for (uint64_t i = 0; i < kCount; ++i) {
    const float expected = ScaledJob<float>::Input(0, i) * ScaledJob<float>::Factor(0) +
                           ScaledJob<float>::Input(1, i) * 0.5f;
    ASSERT_EQ(scaled.Output(0, i), expected) << "element " << i;
  }
}

TEST(SimPreMulSum, MismatchesAPlainSum) {
  for (const std::vector<int>& hosts : std::vector<std::vector<int>>{{0, 0}, {0, 1}}) {
    SimWorld world({.seed = 23});
    ScaledJob<float> scaled(world, hosts, DataType::kFloat32);
    ASSERT_TRUE(scaled.formed());
    scaled.Post(0, OpKind::kAllReduce, kCount, ReduceOp::kSum);
    scaled.Post(1, OpKind::kAllReduce, kCount);
    SimJob& job = scaled.job();
    ASSERT_TRUE(job.RunUntilFailed({0, 1}));
    for (int r = 0; r < 2; ++r) {
      EXPECT_THAT(job.rank(r).failure(), testing::HasSubstr("type float32 op sum"));
      EXPECT_THAT(job.rank(r).failure(), testing::HasSubstr("type float32 op premulsum"));
    }
  }
}

}  // namespace pre_mul_sum_test
}  // namespace mccs
