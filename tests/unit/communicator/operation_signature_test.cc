#include "service/communicator/lanes/operation_signature.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/device/process_memory.h"

namespace mccs {
namespace operation_signature_test {

PostedOperation Call(OpKind kind) {
  PostedOperation call;
  call.kind = kind;
  call.type = DataType::kFloat32;
  call.redop = ReduceOp::kMax;
  call.root = Rank(3);
  call.count = 1024;
  return call;
}

TEST(OperationSignature, RoundTripsThroughTag) {
  const OperationSignature signature = SignatureOf(Call(OpKind::kReduceScatter), 17);
  EXPECT_EQ(FromTag(ToTag(signature)), signature);
}

TEST(OperationSignature, DiffersInEveryField) {
  const OperationSignature one = SignatureOf(Call(OpKind::kAllReduce), 1);
  PostedOperation other = Call(OpKind::kAllReduce);
  EXPECT_NE(SignatureOf(other, 2), one);
  for (int change = 0; change < 5; ++change) {
    other = Call(OpKind::kAllReduce);
    if (change == 0) other.kind = OpKind::kAllGather;
    if (change == 1) other.type = DataType::kInt32;
    if (change == 2) other.redop = ReduceOp::kSum;
    if (change == 3) other.root = Rank(4);
    if (change == 4) other.count = 1025;
    EXPECT_NE(SignatureOf(other, 1), one) << change;
    EXPECT_NE(ToTag(SignatureOf(other, 1)), ToTag(one)) << change;
  }
}

TEST(OperationSignature, IgnoresBufferAddresses) {
  PostedOperation a = Call(OpKind::kAllReduce), b = a;
  std::byte memory[4];
  b.input = b.output = SpanAt(memory, sizeof(memory));
  EXPECT_EQ(SignatureOf(a, 1), SignatureOf(b, 1));
}

TEST(OperationSignature, DescribesFieldsOfTheKind) {
  EXPECT_EQ(Describe(SignatureOf(Call(OpKind::kAllGather), 17)),
            "all_gather #17 count 1024 type float32");
  EXPECT_EQ(Describe(SignatureOf(Call(OpKind::kAllReduce), 1)),
            "all_reduce #1 count 1024 type float32 op max");
  EXPECT_EQ(Describe(SignatureOf(Call(OpKind::kBroadcast), 1)),
            "broadcast #1 count 1024 type float32 root 3");
}

// A tag comes from a peer and may contain any bytes.
TEST(OperationSignature, DescribesAnyBytes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    SliceTag tag;
    for (std::byte& byte : tag) byte = static_cast<std::byte>(random());
    EXPECT_FALSE(Describe(FromTag(tag)).empty());
  }
}

}  // namespace operation_signature_test
}  // namespace mccs
