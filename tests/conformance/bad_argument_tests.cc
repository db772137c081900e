// Bad arguments: the call returns ncclInvalidArgument at once with an error message, and the
// communicator continues to work.
#include <array>
#include <climits>
#include <string>
#include <vector>

#include "conformance/checked_call.h"
#include "conformance/test_table.h"

namespace conformance {
namespace bad_argument_tests {

constexpr size_t kCount = 16;
constexpr size_t kBufferBytes = 64 * 1024;

// Larger than any library's communicator, so that every field that it reads is inside.
constexpr size_t kForeignBytes = 4 << 20;

const ElementType& Float() { return ElementTypes()[ncclFloat32]; }

// State that every test here needs.
struct Fixture {
  explicit Fixture(Test& t)
      : test(t),
        comm(t.World()),
        stream(t.NewStream()),
        send(t.NewBuffer(kBufferBytes)),
        receive(t.NewBuffer(kBufferBytes)) {}

  void ExpectRejected(const Call& call, ncclComm_t with, const std::string& why) {
    const std::string text = ToText(call) + " with " + why;
    test.ok() && test.ExpectResult(ncclInvalidArgument,
                                   Post(call, send.data, receive.data, with, stream), text.c_str());
    const char* last = test.ok() ? ncclGetLastError(with) : "";
    EXPECT_THAT(test, last != nullptr && *last != '\0',
                "an error message in ncclGetLastError after " + text);
  }

  // The communicator must still work.
  void StillWorks() {
    CallBuffers buffers(&test, kCount * sizeof(float));
    const Group world{comm, test.rank(), test.size(), stream};
    buffers.Check({Kind::kAllReduce, &Float(), ncclSum, kCount, 0}, {}, world, 1);
    ncclResult_t state = ncclInternalError;
    NCCL_OK(test, ncclCommGetAsyncError(comm, &state));
    test.ExpectEqual(ncclSuccess, state, "the communicator's asynchronous error");
  }

  Test& test;
  ncclComm_t comm;
  cudaStream_t stream;
  DeviceBuffer send;
  DeviceBuffer receive;
};

Call Ordinary(Kind kind) { return {kind, &Float(), ncclSum, kCount, 0}; }

CONFORMANCE_TEST(bad_arguments, null_communicator) {
  Fixture f(t);
  for (const Collective& collective : Collectives()) {
    f.ExpectRejected(Ordinary(collective.kind), nullptr, "a null communicator");
  }
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclSend(f.send.data, kCount, ncclFloat, 0, nullptr, f.stream));
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclRecv(f.receive.data, kCount, ncclFloat, 0, nullptr, f.stream));
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclBcast(f.send.data, kCount, ncclFloat, 0, nullptr, f.stream));
  f.StillWorks();
}

CONFORMANCE_TEST(bad_arguments, foreign_communicator) {
  Fixture f(t);
  std::vector<std::byte> foreign(kForeignBytes);
  auto* comm = reinterpret_cast<ncclComm_t>(foreign.data());
  for (const Collective& collective : Collectives()) {
    f.ExpectRejected(Ordinary(collective.kind), comm, "a pointer to other memory as communicator");
  }
  NCCL_RETURNS(t, ncclInvalidArgument, ncclSend(f.send.data, kCount, ncclFloat, 0, comm, f.stream));
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclRecv(f.receive.data, kCount, ncclFloat, 0, comm, f.stream));
  int value = 0;
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommCount(comm, &value));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommUserRank(comm, &value));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommCuDevice(comm, &value));
  ncclResult_t state = ncclSuccess;
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommGetAsyncError(comm, &state));
  f.StillWorks();
}

CONFORMANCE_TEST(bad_arguments, root_out_of_range) {
  Fixture f(t);
  for (const Collective& collective : Collectives()) {
    if (!collective.rooted) continue;
    for (int root : {-1, t.size(), INT_MAX, INT_MIN}) {
      Call call = Ordinary(collective.kind);
      call.root = root;
      f.ExpectRejected(call, f.comm, "an invalid root");
    }
  }
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclBcast(f.send.data, kCount, ncclFloat, t.size(), f.comm, f.stream));
  f.StillWorks();
}

CONFORMANCE_TEST(bad_arguments, peer_out_of_range) {
  Fixture f(t);
  for (int peer : {-1, t.size(), INT_MAX, INT_MIN}) {
    NCCL_RETURNS(t, ncclInvalidArgument,
                 ncclSend(f.send.data, kCount, ncclFloat, peer, f.comm, f.stream));
    NCCL_RETURNS(t, ncclInvalidArgument,
                 ncclRecv(f.receive.data, kCount, ncclFloat, peer, f.comm, f.stream));
  }
  f.StillWorks();
}

CONFORMANCE_TEST(bad_arguments, type_out_of_range) {
  Fixture f(t);
  for (int type : {-1, static_cast<int>(ncclNumTypes), INT_MAX, INT_MIN}) {
    ElementType unknown = Float();
    unknown.nccl = static_cast<ncclDataType_t>(type);
    for (const Collective& collective : Collectives()) {
      Call call = Ordinary(collective.kind);
      call.type = &unknown;
      f.ExpectRejected(call, f.comm, "the data type " + std::to_string(type));
    }
    NCCL_RETURNS(t, ncclInvalidArgument,
                 ncclSend(f.send.data, kCount, unknown.nccl, 0, f.comm, f.stream));
    NCCL_RETURNS(t, ncclInvalidArgument,
                 ncclRecv(f.receive.data, kCount, unknown.nccl, 0, f.comm, f.stream));
  }
  f.StillWorks();
}

CONFORMANCE_TEST(bad_arguments, operator_out_of_range) {
  Fixture f(t);
  // The first two values could be user operators, but none exists.
  for (int op : {static_cast<int>(ncclNumOps), static_cast<int>(ncclMaxRedOp), -1, INT_MIN}) {
    for (const Collective& collective : Collectives()) {
      if (!collective.reduces) continue;
      Call call = Ordinary(collective.kind);
      call.op = static_cast<ncclRedOp_t>(op);
      f.ExpectRejected(call, f.comm, "the operator " + std::to_string(op));
    }
  }
  f.StillWorks();
}

CONFORMANCE_TEST(bad_arguments, queries_without_output_pointer) {
  Fixture f(t);
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommCount(f.comm, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommUserRank(f.comm, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommCuDevice(f.comm, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommGetAsyncError(f.comm, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclGetUniqueId(nullptr));
  f.StillWorks();
}

CONFORMANCE_TEST(bad_arguments, queries_of_a_null_communicator) {
  int value = 0;
  ncclResult_t state = ncclSuccess;
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommCount(nullptr, &value));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommUserRank(nullptr, &value));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommCuDevice(nullptr, &value));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommGetAsyncError(nullptr, &state));
}

CONFORMANCE_TEST(bad_arguments, rank_or_size_of_init) {
  ncclUniqueId id;
  NCCL_OK(t, ncclGetUniqueId(&id));
  struct Bad {
    int ranks, rank;
  };
  for (const Bad& bad : {Bad{0, 0}, Bad{-1, 0}, Bad{2, 2}, Bad{2, -1}, Bad{1, INT_MAX}}) {
    auto* comm = reinterpret_cast<ncclComm_t>(1);
    NCCL_RETURNS(t, ncclInvalidArgument, ncclCommInitRank(&comm, bad.ranks, id, bad.rank));
    EXPECT_THAT(t, comm == nullptr, "a null communicator from a rejected init");
  }
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommInitRank(nullptr, 1, id, 0));
}

CONFORMANCE_TEST(bad_arguments, members_of_split_and_shrink) {
  Fixture f(t);
  ncclComm_t child = nullptr;
  int excluded[] = {0};
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommSplit(nullptr, 0, 0, &child, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommSplit(f.comm, 0, 0, nullptr, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclCommShrink(nullptr, excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclCommShrink(f.comm, nullptr, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
  f.StillWorks();
}

CONFORMANCE_TEST(bad_arguments, user_operators) {
  Fixture f(t);
  float scalar = 2;
  ncclRedOp_t op = ncclSum;
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclRedOpDestroy(ncclNumOps, f.comm));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclRedOpDestroy(ncclSum, f.comm));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclRedOpDestroy(ncclMaxRedOp, f.comm));
  f.StillWorks();
}

}  // namespace bad_argument_tests
}  // namespace conformance
