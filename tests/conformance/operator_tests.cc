// Reduction operators: the built-in ones at the limits of their types, and user operators.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace operator_tests {

constexpr size_t kCount = 1021;
constexpr Kind kReducing[] = {Kind::kAllReduce, Kind::kReduce, Kind::kReduceScatter};
constexpr size_t kScalarBytes = 8;

std::vector<std::byte> ScalarOf(const ElementType& type, double value) {
  std::vector<std::byte> scalar(kScalarBytes);
  collective_perf::Encode(type, value, scalar.data());
  return scalar;
}

ncclRedOp_t HostScalar(Test& t, const ElementType& type, double value, ncclComm_t comm) {
  std::vector<std::byte> scalar = ScalarOf(type, value);
  ncclRedOp_t op = ncclSum;
  NCCL_OK(t,
          ncclRedOpCreatePreMulSum(&op, scalar.data(), type.nccl, ncclScalarHostImmediate, comm));
  // The library has read the scalar: later changes have no effect.
  std::fill(scalar.begin(), scalar.end(), std::byte{0x33});
  EXPECT_THAT(t, op >= ncclNumOps, "a new operator beyond the built-in ones");
  return op;
}

void CheckAllReducing(Test& t, const ElementType& type, ncclRedOp_t op, const Group& world) {
  CallBuffers buffers(&t, kCount * t.size() * type.bytes);
  uint64_t salt = 0;
  for (Kind kind : kReducing) {
    for (bool in_place : {false, true}) {
      const Call call{kind, &type, op, kCount, t.size() - 1};
      buffers.Check(call, {in_place, in_place ? size_t{1} : 0}, world, ++salt);
    }
  }
}

void PreMulSumWithHostScalar(Test& t, const ElementType& type) {
  const Group world{t.World(), t.rank(), t.size(), t.NewStream()};
  ncclRedOp_t op = HostScalar(t, type, UserFactor(t.rank()), world.comm);
  CheckAllReducing(t, type, op, world);
  NCCL_OK(t, ncclRedOpDestroy(op, world.comm));
}

// At an unaligned address.
void PreMulSumWithDeviceScalar(Test& t, const ElementType& type) {
  const Group world{t.World(), t.rank(), t.size(), t.NewStream()};
  DeviceBuffer scalar = t.NewBuffer(kScalarBytes + 1);
  const std::vector<std::byte> value = ScalarOf(type, UserFactor(t.rank()));
  CUDA_OK(t, cudaMemcpyAsync(scalar.data + 1, value.data(), type.bytes, cudaMemcpyHostToDevice,
                             world.stream));
  ncclRedOp_t op = ncclSum;
  NCCL_OK(t,
          ncclRedOpCreatePreMulSum(&op, scalar.data + 1, type.nccl, ncclScalarDevice, world.comm));
  CheckAllReducing(t, type, op, world);
  NCCL_OK(t, ncclRedOpDestroy(op, world.comm));
}

// At the call the scalar is not set yet: the stream writes it just before the work.
CONFORMANCE_TEST(operators, a_device_scalar_is_read_while_the_work_runs) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream);
  IntBuffer scalar(t, 1, stream);
  IntBuffer later(t, 1, stream);
  buffers.send.Fill(1);
  scalar.Fill(1000);
  later.Fill(3);
  t.Wait(stream);
  Gate* gate = t.NewGate(stream);
  CUDA_OK(t, cudaMemcpyAsync(scalar.data(), later.data(), sizeof(int32_t), cudaMemcpyDeviceToDevice,
                             stream));
  ncclRedOp_t op = ncclSum;
  NCCL_OK(t, ncclRedOpCreatePreMulSum(&op, scalar.data(), ncclInt32, ncclScalarDevice, comm));
  NCCL_OK(t, ncclAllReduce(buffers.send.data(), buffers.receive.data(), kCount, ncclInt32, op, comm,
                           stream));
  NCCL_OK(t, ncclRedOpDestroy(op, comm));
  gate->Open();
  buffers.receive.Expect(3 * t.size(), "the sum with the scalar that the stream wrote");
}

CONFORMANCE_TEST(operators, an_operator_may_be_destroyed_before_group_end) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(1);
  NCCL_OK(t, ncclGroupStart());
  ncclRedOp_t op = HostScalar(t, TypeOf(ncclInt32), 5, comm);
  NCCL_OK(t, ncclAllReduce(buffers.send.data(), buffers.receive.data(), kCount, ncclInt32, op, comm,
                           stream));
  NCCL_OK(t, ncclRedOpDestroy(op, comm));
  // The next operator may reuse its number.
  ncclRedOp_t other = HostScalar(t, TypeOf(ncclInt32), 7, comm);
  NCCL_OK(t, ncclGroupEnd());
  NCCL_OK(t, ncclRedOpDestroy(other, comm));
  buffers.receive.Expect(5 * t.size(), "the sum of a destroyed operator");
}

CONFORMANCE_TEST(operators, an_operator_belongs_to_one_communicator) {
  ncclComm_t comm = t.World();
  ncclComm_t other = t.NewWorld();
  DeviceBuffer buffer = t.NewBuffer(64);
  ncclRedOp_t op = HostScalar(t, TypeOf(ncclFloat32), 2, comm);
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclAllReduce(buffer.data, buffer.data, 1, ncclFloat32, op, other, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclRedOpDestroy(op, other));
  NCCL_OK(t, ncclRedOpDestroy(op, comm));
  Works(t, other);
  t.Destroy(other);
}

CONFORMANCE_TEST(operators, an_operator_belongs_to_one_type) {
  ncclComm_t comm = t.World();
  DeviceBuffer buffer = t.NewBuffer(64);
  ncclRedOp_t op = HostScalar(t, TypeOf(ncclFloat32), 2, comm);
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclAllReduce(buffer.data, buffer.data, 1, ncclInt32, op, comm, nullptr));
  NCCL_OK(t, ncclRedOpDestroy(op, comm));
  Works(t, comm);
}

CONFORMANCE_TEST(operators, a_destroyed_operator_is_unknown) {
  ncclComm_t comm = t.World();
  DeviceBuffer buffer = t.NewBuffer(64);
  ncclRedOp_t op = HostScalar(t, TypeOf(ncclFloat32), 2, comm);
  NCCL_OK(t, ncclRedOpDestroy(op, comm));
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclAllReduce(buffer.data, buffer.data, 1, ncclFloat32, op, comm, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclRedOpDestroy(op, comm));
  Works(t, comm);
}

CONFORMANCE_TEST(operators, many_operators_at_once) {
  constexpr int kMany = 200;
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, 10, stream);
  buffers.send.Fill(1);
  std::vector<ncclRedOp_t> ops;
  for (int i = 0; i < kMany; ++i) ops.push_back(HostScalar(t, TypeOf(ncclInt32), i, comm));
  for (int i = 0; i < kMany; i += 37) {
    NCCL_OK(t, ncclAllReduce(buffers.send.data(), buffers.receive.data(), 10, ncclInt32, ops[i],
                             comm, stream));
    buffers.receive.Expect(i * t.size(), "the sum with one of many operators");
  }
  for (ncclRedOp_t op : ops) NCCL_OK(t, ncclRedOpDestroy(op, comm));
}

// An all-reduce in which rank contributes `value(rank)`.
template <typename T>
T Reduced(Test& t, ncclDataType_t type, ncclRedOp_t op, const Group& group, T own) {
  constexpr size_t kFew = 33;
  DeviceBuffer buffer = t.NewBuffer(kFew * sizeof(T));
  std::vector<T> values(kFew, own);
  CUDA_OK(t, cudaMemcpyAsync(buffer.data, values.data(), buffer.bytes, cudaMemcpyHostToDevice,
                             group.stream));
  NCCL_OK(t, ncclAllReduce(buffer.data, buffer.data, kFew, type, op, group.comm, group.stream));
  t.Wait(group.stream);
  CUDA_OK(t, cudaMemcpy(values.data(), buffer.data, buffer.bytes, cudaMemcpyDeviceToHost));
  return values[kFew - 1];
}

CONFORMANCE_TEST(operators, integers_wrap_around) {
  const Group world{t.World(), t.rank(), t.size(), t.NewStream()};
  const auto n = static_cast<unsigned>(t.size());
  t.ExpectEqual(static_cast<uint8_t>(200 * n), Reduced<uint8_t>(t, ncclUint8, ncclSum, world, 200),
                "the sum of uint8 200");
  t.ExpectEqual(static_cast<int8_t>(100 * n), Reduced<int8_t>(t, ncclInt8, ncclSum, world, 100),
                "the sum of int8 100");
  t.ExpectEqual(0xf0000000u * n, Reduced<uint32_t>(t, ncclUint32, ncclSum, world, 0xf0000000u),
                "the sum of uint32 0xf0000000");
  uint64_t product = 1;
  for (unsigned i = 0; i < n; ++i) product *= 0x100000001u;
  t.ExpectEqual(product, Reduced<uint64_t>(t, ncclUint64, ncclProd, world, 0x100000001u),
                "the product of uint64 0x100000001");
}

CONFORMANCE_TEST(operators, minimum_and_maximum_know_the_sign) {
  const Group world{t.World(), t.rank(), t.size(), t.NewStream()};
  const uint64_t high = uint64_t{1} << 63;
  const auto r = static_cast<uint64_t>(t.rank());
  const auto last = static_cast<uint64_t>(t.size() - 1);
  t.ExpectEqual(high + last, Reduced<uint64_t>(t, ncclUint64, ncclMax, world, high + r),
                "the maximum of uint64");
  t.ExpectEqual(t.size() > 1 ? uint64_t{1} : high,
                Reduced<uint64_t>(t, ncclUint64, ncclMin, world, r == 0 ? high : r),
                "the minimum of uint64");
  t.ExpectEqual(std::numeric_limits<int64_t>::min(),
                Reduced<int64_t>(t, ncclInt64, ncclMin, world,
                                 std::numeric_limits<int64_t>::min() + t.rank()),
                "the minimum of int64");
  t.ExpectEqual(int8_t{-1}, Reduced<int8_t>(t, ncclInt8, ncclMax, world, -1 - t.rank()),
                "the maximum of negative int8");
  t.ExpectEqual(-0.5f - static_cast<float>(last),
                Reduced<float>(t, ncclFloat32, ncclMin, world, -0.5f - static_cast<float>(r)),
                "the minimum of float");
}

CONFORMANCE_TEST(operators, infinity_and_not_a_number_pass_through_sums) {
  const Group world{t.World(), t.rank(), t.size(), t.NewStream()};
  const float infinity = std::numeric_limits<float>::infinity();
  t.ExpectEqual(infinity,
                Reduced<float>(t, ncclFloat32, ncclSum, world, t.is_root() ? infinity : 1.0f),
                "the sum with infinity");
  const float sum = Reduced<float>(t, ncclFloat32, ncclSum, world,
                                   t.is_root() ? std::numeric_limits<float>::quiet_NaN() : 1.0f);
  EXPECT_THAT(t, std::isnan(sum), "a sum with NaN to be NaN");
}

// Sum, then divide, toward zero; the sum wraps first.
CONFORMANCE_TEST(operators, integer_averages_sum_then_divide) {
  const Group world{t.World(), t.rank(), t.size(), t.NewStream()};
  const int n = t.size();
  const int sum = SumOfRanks(n);
  t.ExpectEqual(sum / n, Reduced<int32_t>(t, ncclInt32, ncclAvg, world, t.rank() + 1),
                "the average of 1..n");
  t.ExpectEqual(-sum / n, Reduced<int32_t>(t, ncclInt32, ncclAvg, world, -t.rank() - 1),
                "the average of -1..-n");
  t.ExpectEqual(static_cast<uint8_t>(200 * n) / n,
                Reduced<uint8_t>(t, ncclUint8, ncclAvg, world, 200), "the average of uint8 200");
}

// The average of three ranks, one of which contributes x: x · round(1/3), rounded to the type.
CONFORMANCE_TEST(operators, float_averages_multiply_by_the_rounded_share, .min_ranks = 3) {
  constexpr int kThree = 3;
  const ncclUniqueId id = t.SharedId();
  if (t.rank() < kThree) {
    ncclComm_t comm = nullptr;
    NCCL_OK(t, ncclCommInitRank(&comm, kThree, id, t.rank()));
    t.TakeOwnership(comm);
    cudaStream_t stream = t.NewStream();
    DeviceBuffer buffer = t.NewBuffer(kScalarBytes);
    for (const ElementType& type : ElementTypes()) {
      if (type.kind != NumberKind::kFloat) continue;
      const double share = RoundTo(type, 1.0 / kThree);
      for (double x : {1.0, 3.0, 5.0, 6.0, 7.0}) {
        std::vector<std::byte> value = ScalarOf(type, t.is_root() ? x : 0);
        CUDA_OK(t, cudaMemcpyAsync(buffer.data, value.data(), type.bytes, cudaMemcpyHostToDevice,
                                   stream));
        NCCL_OK(t, ncclAllReduce(buffer.data, buffer.data, 1, type.nccl, ncclAvg, comm, stream));
        t.Wait(stream);
        CUDA_OK(t, cudaMemcpy(value.data(), buffer.data, type.bytes, cudaMemcpyDeviceToHost));
        t.ExpectEqual(RoundTo(type, x * share), collective_perf::Decode(type, value.data()),
                      "a third of " + std::to_string(x) + " in " + std::string(type.name));
      }
    }
    t.Destroy(comm);
  }
  t.Barrier();
}

}  // namespace operator_tests

void AddOperatorTests(TestTable* table) {
  for (const ElementType& type : ElementTypes()) {
    const std::string name(type.name);
    table->push_back({"operators", "premulsum_with_host_scalar_" + name,
                      [&](Test& t) { operator_tests::PreMulSumWithHostScalar(t, type); }});
    table->push_back({"operators", "premulsum_with_device_scalar_" + name,
                      [&](Test& t) { operator_tests::PreMulSumWithDeviceScalar(t, type); }});
  }
}

}  // namespace conformance
