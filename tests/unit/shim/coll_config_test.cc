// The …Config variants of the collectives: the options in the record, and rejected values.
#include "shim/config/coll_config.h"

#include <climits>
#include <vector>

#include "shim/include/mccs/nccl_options.h"
#include "tests/unit/shim/shim_fixture.h"

// Declarations of NCCL 2.32's header.
extern "C" {
ncclResult_t ncclAllReduceConfig(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
                                 ncclComm_t, cudaStream_t, const mccs::shim::CollConfig*);
ncclResult_t ncclBroadcastConfig(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t,
                                 cudaStream_t, const mccs::shim::CollConfig*);
ncclResult_t ncclReduceConfig(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int,
                              ncclComm_t, cudaStream_t, const mccs::shim::CollConfig*);
ncclResult_t ncclAllGatherConfig(const void*, void*, size_t, ncclDataType_t, ncclComm_t,
                                 cudaStream_t, const mccs::shim::CollConfig*);
ncclResult_t ncclReduceScatterConfig(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
                                     ncclComm_t, cudaStream_t, const mccs::shim::CollConfig*);
ncclResult_t ncclAlltoAllConfig(const void*, void*, size_t, ncclDataType_t, ncclComm_t,
                                cudaStream_t, const mccs::shim::CollConfig*);
ncclResult_t ncclGatherConfig(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t,
                              cudaStream_t, const mccs::shim::CollConfig*);
ncclResult_t ncclScatterConfig(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t,
                               cudaStream_t, const mccs::shim::CollConfig*);
}

namespace mccs {
namespace coll_config_test {

using shim::CollConfig;
using shim::ConfigExtension;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;

CollConfig Initialised() {
  return {.size = sizeof(CollConfig),
          .magic = 0xcafebeef,
          .version = 23203,
          .extensions = nullptr,
          .min_ctas = kUndefined,
          .max_ctas = kUndefined,
          .nvls_ctas = kUndefined,
          .cluster_size = kUndefined,
          .algorithms = nullptr,
          .force_algorithms = 1,
          .cta_policy = kUndefined,
          .profiler_tag = 0,
          .launch_event = nullptr};
}

struct Option {
  int option;
  int value;
  int vendor = MCCS_NCCL_VENDOR_ID;
};

class CollConfigs : public ShimTest {
 protected:
  CollConfigs() {
    MakeRanks(1);
    data_ = Buffer<int>({1, 2, 3, 4});
  }

  ncclResult_t AllReduce(const CollConfig* config) {
    return ncclAllReduceConfig(data_, data_, 1, ncclInt, ncclSum, comms_[0], nullptr, config);
  }
  ncclResult_t AllReduceWith(const std::vector<Option>& options) {
    std::vector<ConfigExtension> list(options.size());
    for (size_t i = 0; i < options.size(); ++i) {
      list[i] = {.next = i + 1 < options.size() ? &list[i + 1] : nullptr,
                 .vendor = options[i].vendor,
                 .option = options[i].option,
                 .value = {.i = options[i].value}};
    }
    CollConfig config = Initialised();
    config.extensions = list.empty() ? nullptr : list.data();
    return AllReduce(&config);
  }
  CallOptions Carried() {
    EXPECT_TRUE(test_cuda::Synchronize(nullptr));
    const wire::WorkRecord record = daemon_.RecordsOf(0).back();
    return {record.deadline_us, record.priority, record.criticality};
  }

  int* data_;
};

TEST_F(CollConfigs, OptionsAreInTheRecord) {
  ASSERT_EQ(AllReduceWith({{MCCS_OPTION_PRIORITY, 7},
                           {MCCS_OPTION_DEADLINE_US, 2000},
                           {MCCS_OPTION_CRITICALITY, MCCS_CRITICALITY_CRITICAL}}),
            ncclSuccess)
      << LastError();
  EXPECT_EQ(Carried(), (CallOptions{2000, 7, Criticality::kCritical}));
  ASSERT_EQ(AllReduceWith({{MCCS_OPTION_DEADLINE_US, INT_MAX}}), ncclSuccess);
  EXPECT_EQ(Carried(), (CallOptions{.deadline_us = INT_MAX}));
  ASSERT_EQ(AllReduce(nullptr), ncclSuccess);
  EXPECT_EQ(Carried(), CallOptions{});
}

TEST_F(CollConfigs, EveryCollectiveHasItsVariant) {
  ConfigExtension option{.next = nullptr,
                         .vendor = MCCS_NCCL_VENDOR_ID,
                         .option = MCCS_OPTION_PRIORITY,
                         .value = {.i = 1}};
  CollConfig config = Initialised();
  config.extensions = &option;
  int* out = Buffer<int>({0, 0, 0, 0});
  ncclComm_t comm = comms_[0];
  const std::vector<std::pair<OpKind, std::function<ncclResult_t()>>> calls = {
      {OpKind::kAllGather,
       [&] { return ncclAllGatherConfig(data_, out, 2, ncclInt, comm, nullptr, &config); }},
      {OpKind::kBroadcast,
       [&] { return ncclBroadcastConfig(data_, out, 2, ncclInt, 0, comm, nullptr, &config); }},
      {OpKind::kReduceScatter,
       [&] {
         return ncclReduceScatterConfig(data_, out, 2, ncclInt, ncclMax, comm, nullptr, &config);
       }},
      {OpKind::kAllToAll,
       [&] { return ncclAlltoAllConfig(data_, out, 2, ncclInt, comm, nullptr, &config); }},
      {OpKind::kGather,
       [&] { return ncclGatherConfig(data_, out, 2, ncclInt, 0, comm, nullptr, &config); }},
      {OpKind::kScatter,
       [&] { return ncclScatterConfig(data_, out, 2, ncclInt, 0, comm, nullptr, &config); }},
      {OpKind::kReduce, [&] {
         return ncclReduceConfig(data_, out, 2, ncclInt, ncclMin, 0, comm, nullptr, &config);
       }}};
  for (const auto& [kind, call] : calls) {
    option.value.i = option.value.i % 7 + 1;
    ASSERT_EQ(call(), ncclSuccess) << LastError();
    EXPECT_EQ(Carried(), (CallOptions{.priority = static_cast<uint8_t>(option.value.i)}));
    EXPECT_EQ(daemon_.RecordsOf(0).back().op, kind);
  }
}

TEST_F(CollConfigs, IgnoresOptionsOfOtherVendors) {
  ASSERT_EQ(AllReduceWith({{MCCS_OPTION_PRIORITY, 99, 0x123456},
                           {MCCS_OPTION_PRIORITY, 3},
                           {MCCS_OPTION_PRIORITY, -1, -5},
                           {12345, 0, 0}}),
            ncclSuccess)
      << LastError();
  EXPECT_EQ(Carried(), (CallOptions{.priority = 3}));
}

TEST_F(CollConfigs, RejectsValuesOutOfRange) {
  for (const Option& bad :
       {Option{MCCS_OPTION_PRIORITY, 0}, Option{MCCS_OPTION_PRIORITY, 8},
        Option{MCCS_OPTION_DEADLINE_US, 0}, Option{MCCS_OPTION_DEADLINE_US, -1},
        Option{MCCS_OPTION_CRITICALITY, 0}, Option{MCCS_OPTION_CRITICALITY, 4}}) {
    EXPECT_EQ(AllReduceWith({bad}), ncclInvalidArgument) << bad.option << " " << bad.value;
    EXPECT_THAT(LastError(),
                AllOf(HasSubstr("ncclAllReduceConfig: MCCS_OPTION_"),
                      HasSubstr(" is " + std::to_string(bad.value)), HasSubstr("expected 1")));
  }
  for (int option : {0, 4, -1, INT_MAX}) {
    EXPECT_EQ(AllReduceWith({{option, 1}}), ncclInvalidArgument);
    EXPECT_THAT(LastError(), HasSubstr("unknown option " + std::to_string(option)));
  }
  EXPECT_EQ(AllReduceWith({{MCCS_OPTION_PRIORITY, 3}, {MCCS_OPTION_PRIORITY, 3}}),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("MCCS_OPTION_PRIORITY is given twice"));
}

TEST_F(CollConfigs, RejectsACircularList) {
  ConfigExtension extension{.next = nullptr, .vendor = 1, .option = 1, .value = {.i = 1}};
  extension.next = &extension;
  CollConfig config = Initialised();
  config.extensions = &extension;
  EXPECT_EQ(AllReduce(&config), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("check that it is not circular"));
}

TEST_F(CollConfigs, RequiresInitialisationAndAcceptsLongerConfigs) {
  CollConfig config = Initialised();
  config.magic = 0;
  EXPECT_EQ(AllReduce(&config), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("NCCL_COLLCONFIG_INITIALIZER"));
  config = Initialised();
  config.size = 24;
  EXPECT_EQ(AllReduce(&config), ncclInvalidArgument);
  config = Initialised();
  config.size = 4096;
  config.version = 29999;
  EXPECT_EQ(AllReduce(&config), ncclSuccess) << LastError();
}

TEST_F(CollConfigs, AcceptsHintsWithinTheirRanges) {
  CollConfig config = Initialised();
  config.min_ctas = 2;
  config.max_ctas = 4;
  config.algorithms = "ring";
  config.cta_policy = 2;
  config.profiler_tag = 77;
  EXPECT_EQ(AllReduce(&config), ncclSuccess) << LastError();
  config.min_ctas = 5;
  EXPECT_EQ(AllReduce(&config), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("minCTAs (5) exceeds"));
  config.min_ctas = -3;
  EXPECT_EQ(AllReduce(&config), ncclInvalidArgument);
  config = Initialised();
  config.launch_event = data_;
  EXPECT_EQ(AllReduce(&config), ncclInvalidUsage);
  EXPECT_THAT(LastError(), HasSubstr("launchCompletionEvent"));
}

}  // namespace coll_config_test
}  // namespace mccs
