// User-defined reduction operators: their communicator, their lifetime, and the factor of each
// call.
#include <cstring>
#include <set>

#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace user_operator_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class UserOperatorTest : public ShimTest {
 protected:
  UserOperatorTest() {
    MakeRanks(2);
    for (int r = 0; r < 2; ++r) data_.push_back(Buffer<float>({1, 2, 3, 4}));
  }

  ncclRedOp_t Make(int r, float factor) {
    ncclRedOp_t op{};
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, comms_[r]),
              ncclSuccess)
        << LastError();
    factor = -1;  // already read
    return op;
  }
  ncclResult_t AllReduce(int r, ncclRedOp_t op, ncclDataType_t type = ncclFloat) {
    return ncclAllReduce(data_[r], data_[r], 3, type, op, comms_[r], nullptr);
  }
  void ExpectFactor(int r, size_t call, float factor) {
    const auto records = daemon_.RecordsOf(r);
    ASSERT_GT(records.size(), call);
    float carried;
    std::memcpy(&carried, &records[call].scalar, sizeof(carried));
    EXPECT_EQ(records[call].redop, ReduceOp::kPreMulSum);
    EXPECT_EQ(records[call].scalar_buffer.id, 0u);
    EXPECT_EQ(carried, factor);
  }

  std::vector<float*> data_;
};

TEST_F(UserOperatorTest, EachRankSendsItsOwnFactor) {
  ncclRedOp_t ops[] = {Make(0, 0.5f), Make(1, 4)};
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) EXPECT_EQ(AllReduce(r, ops[r]), ncclSuccess) << LastError();
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(test_cuda::Synchronize(nullptr));
  ExpectFactor(0, 0, 0.5f);
  ExpectFactor(1, 0, 4);
}

TEST_F(UserOperatorTest, MayBeDestroyedBeforeTheGroupEnds) {
  ncclRedOp_t ops[] = {Make(0, 0.5f), Make(1, 4)};
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(AllReduce(r, ops[r]), ncclSuccess);
    EXPECT_EQ(ncclRedOpDestroy(ops[r], comms_[r]), ncclSuccess) << LastError();
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(test_cuda::Synchronize(nullptr));
  ExpectFactor(1, 0, 4);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(AllReduce(r, ops[r]), ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpDestroy(ops[r], comms_[r]), ncclInvalidArgument);
  }
}

TEST_F(UserOperatorTest, DeviceFactorIsSentAsAllocationAndOffset) {
  auto* memory = reinterpret_cast<std::byte*>(Buffer<float>({0, 0, 0}));
  ncclRedOp_t ops[2];
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) {
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&ops[r], memory + 1 + 4 * r, ncclFloat, ncclScalarDevice,
                                       comms_[r]),
              ncclSuccess);
    EXPECT_EQ(AllReduce(r, ops[r]), ncclSuccess) << LastError();
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(test_cuda::Synchronize(nullptr));
  for (int r = 0; r < 2; ++r) {
    const wire::WorkRecord record = daemon_.RecordsOf(r)[0];
    EXPECT_EQ(record.redop, ReduceOp::kPreMulSum);
    EXPECT_NE(record.scalar_buffer.id, 0u);
    EXPECT_NE(record.scalar_buffer.id, record.send.id);
    EXPECT_EQ(record.scalar_buffer.offset, 1u + 4 * static_cast<unsigned>(r));
  }
}

TEST_F(UserOperatorTest, RejectsAFactorOutsideItsAllocation) {
  auto* memory = reinterpret_cast<std::byte*>(Buffer<float>({0}));
  ncclRedOp_t op;
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, memory + 1, ncclFloat, ncclScalarDevice, comms_[0]),
            ncclSuccess);
  EXPECT_EQ(AllReduce(0, op), ncclInvalidArgument);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("scalar"), HasSubstr("exceeds its allocation")));
  test_cuda::Free(memory);
  EXPECT_EQ(AllReduce(0, op), ncclInvalidArgument);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("scalar"), HasSubstr("is not CUDA memory")));
}

TEST_F(UserOperatorTest, BelongsToOneCommunicatorAndOneType) {
  const ncclRedOp_t op = Make(0, 2);
  EXPECT_EQ(AllReduce(1, op), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("unknown reduction operator"));
  EXPECT_EQ(AllReduce(0, op, ncclInt), ncclInvalidArgument);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("created for datatype float32"), HasSubstr("int32")));
  EXPECT_EQ(ncclRedOpDestroy(op, comms_[1]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(op, comms_[0]), ncclSuccess);
}

TEST_F(UserOperatorTest, NumbersAreNotReused) {
  std::set<int> seen;
  for (int i = 0; i < 1000; ++i) {
    const ncclRedOp_t op = Make(i % 2, 1);
    EXPECT_GE(static_cast<int>(op), static_cast<int>(ncclNumOps));
    EXPECT_TRUE(seen.insert(op).second);
    EXPECT_EQ(ncclRedOpDestroy(op, comms_[i % 2]), ncclSuccess);
  }
}

TEST_F(UserOperatorTest, EncodesEveryType) {
  const uint64_t bits = 0x1122334455667788;
  for (int type = 0; type < ncclNumTypes; ++type) {
    ncclRedOp_t op;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, const_cast<uint64_t*>(&bits),
                                       static_cast<ncclDataType_t>(type), ncclScalarHostImmediate,
                                       comms_[0]),
              ncclSuccess);
    ncclGroupStart();
    for (int r = 0; r < 2; ++r) {
      ncclAllReduce(data_[r], data_[r], 1, static_cast<ncclDataType_t>(type), r == 0 ? op : ncclSum,
                    comms_[r], nullptr);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
    ASSERT_TRUE(test_cuda::Synchronize(nullptr));
    const size_t size = SizeOf(static_cast<DataType>(type));
    const uint64_t mask = size == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1;
    EXPECT_EQ(daemon_.RecordsOf(0).back().scalar, bits & mask) << type;
  }
}

TEST_F(UserOperatorTest, CreationRejectsInvalidArguments) {
  float factor = 2;
  ncclRedOp_t op;
  EXPECT_EQ(
      ncclRedOpCreatePreMulSum(nullptr, &factor, ncclFloat, ncclScalarHostImmediate, comms_[0]),
      ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, nullptr, ncclFloat, ncclScalarHostImmediate, comms_[0]),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("scalar is NULL"));
  for (int type : {-1, 12, 99}) {
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &factor, static_cast<ncclDataType_t>(type),
                                       ncclScalarHostImmediate, comms_[0]),
              ncclInvalidArgument);
  }
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, static_cast<ncclScalarResidence_t>(2),
                                     comms_[0]),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("residence"));
  for (ncclComm_t comm : {static_cast<ncclComm_t>(nullptr), reinterpret_cast<ncclComm_t>(&op)}) {
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, comm),
              ncclInvalidArgument);
  }
}

TEST_F(UserOperatorTest, DestructionRejectsInvalidArguments) {
  for (int op : {-1, 0, 4, 5, 12345, int{ncclMaxRedOp}}) {
    EXPECT_EQ(ncclRedOpDestroy(static_cast<ncclRedOp_t>(op), comms_[0]), ncclInvalidArgument) << op;
  }
  EXPECT_EQ(ncclRedOpDestroy(Make(0, 1), nullptr), ncclInvalidArgument);
}

}  // namespace user_operator_test
}  // namespace mccs
