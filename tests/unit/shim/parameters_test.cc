// ncclParam*: the library's variables as parameters with keys.
#include <nccl.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "shim/config/variables.h"
#include "shim/daemon/error_message.h"
#include "tests/unit/shim/environment_fixture.h"

extern "C" {
typedef struct ncclParamHandle* ncclParamHandle_t;
ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key);
ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t* out);
ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t* out);
ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t* out);
ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t* out);
ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t* out);
ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t* out);
ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t* out);
ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t* out);
ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char** out);
ncclResult_t ncclParamGet(ncclParamHandle_t h, void* out, int max_length, int* length);
ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* length);
ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* length);
void ncclParamDumpAll(void);
}

namespace mccs {
namespace parameters_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class ParametersTest : public EnvironmentTest {
 protected:
  static ncclParamHandle_t Bound(const char* key) {
    ncclParamHandle_t handle = nullptr;
    EXPECT_EQ(ncclParamBind(&handle, key), ncclSuccess) << ncclGetLastError(nullptr);
    return handle;
  }
  static std::vector<std::string> Keys() {
    const char** table = nullptr;
    int length = 0;
    EXPECT_EQ(ncclParamGetAllParameterKeys(&table, &length), ncclSuccess);
    return {table, table + length};
  }
};

TEST_F(ParametersTest, BindsKnownKeysAndRejectsOthers) {
  auto* const untouched = reinterpret_cast<ncclParamHandle_t>(0x10);
  ncclParamHandle_t handle = untouched;
  EXPECT_EQ(ncclParamBind(&handle, "NCCL_NO_SUCH_THING"), ncclInvalidArgument);
  EXPECT_EQ(handle, untouched);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("NCCL_NO_SUCH_THING"));
  EXPECT_EQ(ncclParamBind(nullptr, "NCCL_DEBUG"), ncclInvalidArgument);
  EXPECT_EQ(ncclParamBind(&handle, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclParamBind(&handle, "NCCL_P2P_*"), ncclInvalidArgument);
  EXPECT_EQ(Bound("NCCL_ALGO"), Bound("NCCL_ALGO"));
}

// The largest value of each width, and the next value.
TEST_F(ParametersTest, EveryWidthHasItsLimit) {
  const ncclParamHandle_t handle = Bound("NCCL_BUFFSIZE");
  const auto fits = [&]<typename Integer>(ncclResult_t (*get)(ncclParamHandle_t, Integer*)) {
    const auto most = static_cast<uint64_t>(std::numeric_limits<Integer>::max());
    Integer value = 0;
    Set("NCCL_BUFFSIZE", std::to_string(most));
    EXPECT_EQ(get(handle, &value), ncclSuccess) << most;
    EXPECT_EQ(value, std::numeric_limits<Integer>::max());
    Set("NCCL_BUFFSIZE", std::to_string(most + 1));
    value = 7;
    EXPECT_EQ(get(handle, &value), ncclInvalidArgument) << most;
    EXPECT_EQ(value, 7);
  };
  fits(ncclParamGetI8);
  fits(ncclParamGetU8);
  fits(ncclParamGetI16);
  fits(ncclParamGetU16);
  fits(ncclParamGetI32);
  fits(ncclParamGetU32);
}

TEST_F(ParametersTest, ReadsIntegersOfEveryWidth) {
  const ncclParamHandle_t handle = Bound("NCCL_BUFFSIZE");
  int64_t wide = 0;
  EXPECT_EQ(ncclParamGetI64(handle, &wide), ncclInvalidArgument);  // unset, without a default
  Set("NCCL_BUFFSIZE", "4194304");
  EXPECT_EQ(ncclParamGetI64(handle, &wide), ncclSuccess);
  EXPECT_EQ(wide, 4194304);
  int32_t middle = 0;
  EXPECT_EQ(ncclParamGetI32(handle, &middle), ncclSuccess);
  EXPECT_EQ(middle, 4194304);
  int8_t narrow = 7;
  EXPECT_EQ(ncclParamGetI8(handle, &narrow), ncclInvalidArgument);
  EXPECT_EQ(narrow, 7);
  Set("NCCL_BUFFSIZE", "-1");
  uint64_t positive = 0;
  EXPECT_EQ(ncclParamGetU64(handle, &positive), ncclInvalidArgument);
  Set("NCCL_BUFFSIZE", "much");
  EXPECT_EQ(ncclParamGetI64(handle, &wide), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetI64(handle, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetI64(Bound("NCCL_DEBUG"), &wide), ncclInvalidArgument);
}

TEST_F(ParametersTest, ReadsStringsOrTheirDefault) {
  const char* text = nullptr;
  const ncclParamHandle_t handle = Bound("NCCL_DEBUG_SUBSYS");
  EXPECT_EQ(ncclParamGetStr(handle, &text), ncclSuccess);
  EXPECT_STREQ(text, "INIT,BOOTSTRAP,ENV");
  Write(".nccl.conf", "NCCL_DEBUG_SUBSYS=COLL\n");
  Reload();
  EXPECT_EQ(ncclParamGetStr(handle, &text), ncclSuccess);
  EXPECT_STREQ(text, "COLL");
  EXPECT_EQ(ncclParamGetStr(Bound("NCCL_BUFFSIZE"), &text), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetStr(handle, nullptr), ncclInvalidArgument);
  int length = 0;
  EXPECT_EQ(ncclParamGetParameter("NCCL_DEBUG_SUBSYS", &text, &length), ncclSuccess);
  EXPECT_EQ(std::string(text, static_cast<size_t>(length)), "COLL");
  EXPECT_EQ(ncclParamGetParameter("NCCL_NO_SUCH_THING", &text, &length), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetParameter(nullptr, &text, &length), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetParameter("NCCL_DEBUG", nullptr, &length), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetParameter("NCCL_DEBUG", &text, nullptr), ncclInvalidArgument);
}

TEST_F(ParametersTest, RawValuesNeedALargeEnoughBuffer) {
  Set("NCCL_ALGO", "ring");
  char room[8] = {};
  int length = 99;
  EXPECT_EQ(ncclParamGet(Bound("NCCL_ALGO"), room, 4, &length), ncclInvalidArgument);
  EXPECT_EQ(length, 0);
  EXPECT_EQ(ncclParamGet(Bound("NCCL_ALGO"), room, 8, &length), ncclSuccess);
  EXPECT_EQ(length, 5);
  EXPECT_STREQ(room, "ring");
  int64_t value = 0;
  EXPECT_EQ(ncclParamGet(Bound("NCCL_CHECK_POINTERS"), &value, 8, &length), ncclSuccess);
  EXPECT_EQ(length, 8);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(ncclParamGet(Bound("NCCL_ALGO"), nullptr, 8, &length), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGet(Bound("NCCL_ALGO"), room, -1, &length), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGet(Bound("NCCL_ALGO"), room, 8, nullptr), ncclInvalidArgument);
}

TEST_F(ParametersTest, RejectsArbitraryHandles) {
  const auto first = reinterpret_cast<uintptr_t>(shim::Variables().data());
  const uintptr_t end = first + shim::Variables().size_bytes();
  int64_t value = 0;
  for (const uintptr_t bits :
       {uintptr_t{0}, uintptr_t{1}, first - 8, first + 1, end, ~uintptr_t{0}}) {
    EXPECT_EQ(ncclParamGetI64(reinterpret_cast<ncclParamHandle_t>(bits), &value),
              ncclInvalidArgument);
  }
}

TEST_F(ParametersTest, ListsIgnoredVariablesOnRequest) {
  EXPECT_THAT(Keys(), AllOf(Contains("NCCL_DEBUG"), Contains("NCCL_ALGO"), Contains("MCCS_SOCKET"),
                            Not(Contains("NCCL_SHM_DISABLE"))));
  Set("NCCL_PARAM_DUMP_ALL", "true");
  EXPECT_THAT(Keys(), AllOf(Contains("NCCL_DEBUG"), Contains("NCCL_SHM_DISABLE"),
                            Not(Contains("NCCL_SHM_*"))));
  EXPECT_EQ(ncclParamGetAllParameterKeys(nullptr, nullptr), ncclInvalidArgument);
}

TEST_F(ParametersTest, DumpContainsTheSourceOfEachValue) {
  Set("NCCL_ALGO", "ring");
  Write(".nccl.conf", "NCCL_PROTO=simple\n");
  Reload();
  testing::internal::CaptureStdout();
  ncclParamDumpAll();
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("NCCL_ALGO=ring (environment; hint: "),
                    HasSubstr("NCCL_PROTO=simple (" + directory_.File(".nccl.conf")),
                    HasSubstr("NCCL_CHECK_POINTERS=0 (default; honoured: ")));
}

}  // namespace parameters_test
}  // namespace mccs
