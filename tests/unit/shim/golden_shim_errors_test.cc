// The text of ncclGetLastError after typical mistakes.
#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/unit/eventually.h"
#include "tests/unit/golden.h"
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace golden_shim_errors_test {

class GoldenShimErrors : public ShimTest {
 protected:
  // Adds a failed call and its error message, without addresses and paths, which differ each time.
  void Add(const std::string& mistake, ncclResult_t result) {
    EXPECT_NE(result, ncclSuccess) << mistake;
    std::string message =
        absl::StrReplaceAll(LastError(), {{daemon_.socket_path(), "/run/mccsd.sock"}});
    message = std::regex_replace(message, std::regex("0x[0-9a-f]+"), "0xADDRESS");
    absl::StrAppend(&text_, text_.empty() ? "" : "\n", mistake, ":\n", ncclGetErrorString(result),
                    "\n", message, "\n");
  }

  std::string text_;
};

TEST_F(GoldenShimErrors, OfTypicalMistakes) {
  MakeRanks(2);
  int* const data = Buffer<int>({1, 2, 3, 4});
  ncclComm_t const comm = comms_[0];
  const auto all_reduce = [&](const void* send, void* recv, size_t count, int type = ncclInt,
                              int op = ncclSum) {
    return ncclAllReduce(send, recv, count, static_cast<ncclDataType_t>(type),
                         static_cast<ncclRedOp_t>(op), comm, nullptr);
  };
  Add("no input buffer", all_reduce(nullptr, data, 1));
  Add("no output buffer", all_reduce(data, nullptr, 1));
  Add("no communicator", ncclAllReduce(data, data, 1, ncclInt, ncclSum, nullptr, nullptr));
  Add("unknown type", all_reduce(data, data, 1, 1000));
  Add("unknown operator", all_reduce(data, data, 1, ncclInt, 77));
  Add("count beyond the allocation", all_reduce(data, data, 5));
  int on_the_stack[1] = {};
  Add("memory that is not CUDA's", all_reduce(on_the_stack, data, 1));
  int* const freed = Buffer<int>({1});
  test_cuda::Free(freed);
  Add("freed memory", all_reduce(freed, data, 1));
  Add("root out of range", ncclBroadcast(data, data, 1, ncclInt, 2, comm, nullptr));
  Add("peer out of range", ncclSend(data, 1, ncclInt, 9, comm, nullptr));
  Add("group end without start", ncclGroupEnd());

  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t other = nullptr;
  Add("rank out of range", ncclCommInitRank(&other, 2, id, 2));
  Add("no ranks", ncclCommInitRank(&other, 0, id, 0));
  Add("unique id of another library", ncclCommInitRank(&other, 1, ncclUniqueId{}, 0));
  const int twice[] = {1, 1};
  ncclComm_t pair[2];
  Add("one GPU twice", ncclCommInitAll(pair, 2, twice));
  Add("split with an invalid color", ncclCommSplit(comm, -2, 0, &other, nullptr));

  daemon_.FailRank(0, wire::ErrorClass::kRemote, "rank 1 left");
  Add("call after a failure of the communicator", all_reduce(data, data, 1));
  daemon_.Die();
  // The first calls may still report the end of the connection.
  ncclResult_t result = ncclSuccess;
  EXPECT_TRUE(Eventually([&] {
    result = ncclGetUniqueId(&id);
    return LastError().find("no MCCS daemon at") != std::string::npos;
  }));
  Add("no daemon", result);
  ExpectGolden("shim_errors.txt", text_);
}

}  // namespace golden_shim_errors_test
}  // namespace mccs
