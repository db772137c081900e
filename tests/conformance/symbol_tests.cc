// Exported names: a framework does not start if one is missing.
#include <string>

#include "conformance/library.h"
#include "conformance/test_table.h"

namespace conformance {
namespace symbol_tests {

constexpr const char* kFunctions[] = {
    "AllGather",
    "AllReduce",
    "AlltoAll",
    "Bcast",
    "Broadcast",
    "CommAbort",
    "CommCount",
    "CommCuDevice",
    "CommDeregister",
    "CommDestroy",
    "CommFinalize",
    "CommGetAsyncError",
    "CommInitAll",
    "CommInitRank",
    "CommInitRankConfig",
    "CommInitRankScalable",
    "CommRegister",
    "CommRevoke",
    "CommShrink",
    "CommSplit",
    "CommUserRank",
    "CommWindowDeregister",
    "CommWindowRegister",
    "Gather",
    "GetErrorString",
    "GetLastError",
    "GetUniqueId",
    "GetVersion",
    "GroupEnd",
    "GroupSimulateEnd",
    "GroupStart",
    "MemAlloc",
    "MemFree",
    "RedOpCreatePreMulSum",
    "RedOpDestroy",
    "Recv",
    "Reduce",
    "ReduceScatter",
    "ResetDebugInit",
    "Scatter",
    "Send",
};

CONFORMANCE_TEST(symbols, every_function_has_both_names) {
  for (const char* function : kFunctions) {
    const std::string name = std::string("nccl") + function;
    EXPECT_THAT(t, FindFunction(name.c_str()) != nullptr, name + " to be exported");
    const std::string profiled = "p" + name;
    EXPECT_THAT(t, FindFunction(profiled.c_str()) != nullptr, profiled + " to be exported");
  }
}

// Otherwise a profiler that replaces one name would miss calls through the other.
CONFORMANCE_TEST(symbols, both_names_are_one_function) {
  for (const char* function : kFunctions) {
    const std::string name = std::string("nccl") + function;
    EXPECT_THAT(t, FindFunction(name.c_str()) == FindFunction(("p" + name).c_str()),
                name + " and p" + name + " to be the same function");
  }
}

CONFORMANCE_TEST(symbols, version_is_at_least_the_headers) {
  int version = 0;
  NCCL_OK(t, ncclGetVersion(&version));
  EXPECT_THAT(t, version >= NCCL_VERSION_CODE,
              "version " + std::to_string(version) + " to be at least " +
                  std::to_string(NCCL_VERSION_CODE));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclGetVersion(nullptr));
}

CONFORMANCE_TEST(symbols, every_error_has_a_message) {
  for (int result = 0; result < ncclNumResults; ++result) {
    const char* text = ncclGetErrorString(static_cast<ncclResult_t>(result));
    EXPECT_THAT(t, text != nullptr && *text != '\0',
                "a message for ncclResult_t " + std::to_string(result));
  }
  const char* unknown = ncclGetErrorString(static_cast<ncclResult_t>(1000));
  EXPECT_THAT(t, unknown != nullptr && *unknown != '\0', "a message for an unknown result");
}

}  // namespace symbol_tests
}  // namespace conformance
