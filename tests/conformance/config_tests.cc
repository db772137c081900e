// ncclConfig_t in all its sizes, unique ids, and inits with several of them.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace config_tests {

void MakesAWorkingWorld(Test& t, ncclConfig_t* config) {
  ncclComm_t comm = t.NewWorld(config);
  Works(t, comm);
  t.Destroy(comm);
}

CONFORMANCE_TEST(config, null_is_the_default) { MakesAWorkingWorld(t, nullptr); }

CONFORMANCE_TEST(config, the_initializer_is_the_default) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  MakesAWorkingWorld(t, &config);
}

CONFORMANCE_TEST(config, every_field_may_be_set) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.cgaClusterSize = 2;
  config.minCTAs = 1;
  config.maxCTAs = 8;
  config.splitShare = 1;
  config.trafficClass = 0;
  config.commName = "conformance";
  config.collnetEnable = 0;
  config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  config.shrinkShare = 1;
  config.nvlsCTAs = 4;
  config.nChannelsPerNetPeer = 2;
  config.nvlinkCentricSched = 1;
  MakesAWorkingWorld(t, &config);
}

// A program built with an older header passes a smaller struct of an older version. The library
// must not read beyond it.
CONFORMANCE_TEST(config, older_and_smaller_structs) {
  struct Version {
    size_t bytes;
    unsigned version;
  };
  for (const Version& older : {Version{24, NCCL_VERSION(2, 14, 3)},
                               {48, NCCL_VERSION(2, 18, 1)},
                               {72, NCCL_VERSION(2, 27, 3)},
                               {80, NCCL_VERSION(2, 28, 3)}}) {
    ncclConfig_t config;
    std::memset(&config, 0x5a, sizeof(config));
    const ncclConfig_t initialized = NCCL_CONFIG_INITIALIZER;
    std::memcpy(&config, &initialized, older.bytes);
    config.size = older.bytes;
    config.version = older.version;
    MakesAWorkingWorld(t, &config);
  }
}

// A program built with a newer header passes a larger struct.
CONFORMANCE_TEST(config, newer_and_larger_structs) {
  constexpr size_t kMore = 96;
  std::vector<std::byte> bytes(sizeof(ncclConfig_t) + kMore, std::byte{0x5a});
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.size = bytes.size();
  config.version = NCCL_VERSION(2, 99, 0);
  std::memcpy(bytes.data(), &config, sizeof(config));
  // The fields that 2.29 to 2.32 added: undefined values.
  for (size_t at = sizeof(config); at + sizeof(int) <= bytes.size(); at += sizeof(int)) {
    const int undefined = NCCL_CONFIG_UNDEF_INT;
    std::memcpy(bytes.data() + at, &undefined, sizeof(undefined));
  }
  MakesAWorkingWorld(t, reinterpret_cast<ncclConfig_t*>(bytes.data()));
}

void ExpectInitRejected(Test& t, ncclConfig_t config, const char* what) {
  ncclUniqueId id;
  NCCL_OK(t, ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  if (!t.ok()) return;
  t.ExpectResult(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config), what);
  EXPECT_THAT(t, comm == nullptr, "a null communicator from a rejected init");
}

CONFORMANCE_TEST(config, without_its_magic_it_is_invalid_argument) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  ExpectInitRejected(t, config, "an init with a config without magic");
}

CONFORMANCE_TEST(config, values_out_of_range_are_invalid_argument) {
  struct Bad {
    const char* what;
    void (*set)(ncclConfig_t* config);
  };
  constexpr Bad kBad[] = {
      {"blocking = 2", [](ncclConfig_t* config) { config->blocking = 2; }},
      {"cgaClusterSize = -1", [](ncclConfig_t* config) { config->cgaClusterSize = -1; }},
      {"minCTAs = 0", [](ncclConfig_t* config) { config->minCTAs = 0; }},
      {"maxCTAs = 0", [](ncclConfig_t* config) { config->maxCTAs = 0; }},
      {"minCTAs = 8, maxCTAs = 4",
       [](ncclConfig_t* config) {
         config->minCTAs = 8;
         config->maxCTAs = 4;
       }},
      {"splitShare = 2", [](ncclConfig_t* config) { config->splitShare = 2; }},
      {"collnetEnable = 2", [](ncclConfig_t* config) { config->collnetEnable = 2; }},
      {"shrinkShare = 2", [](ncclConfig_t* config) { config->shrinkShare = 2; }},
      {"nvlsCTAs = 0", [](ncclConfig_t* config) { config->nvlsCTAs = 0; }},
      {"nChannelsPerNetPeer = 0", [](ncclConfig_t* config) { config->nChannelsPerNetPeer = 0; }},
      {"nvlinkCentricSched = 2", [](ncclConfig_t* config) { config->nvlinkCentricSched = 2; }},
  };
  for (const Bad& bad : kBad) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    bad.set(&config);
    ExpectInitRejected(t, config, bad.what);
  }
}

CONFORMANCE_TEST(config, strings_are_copied) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  auto name = std::make_unique<std::string>(100, 'n');
  config.commName = name->c_str();
  ncclComm_t comm = t.NewWorld(&config);
  name->assign(100, 'x');
  name.reset();
  Works(t, comm);
  t.Destroy(comm);
}

CONFORMANCE_TEST(unique_id, ids_differ) {
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) NCCL_OK(t, ncclGetUniqueId(&id));
  EXPECT_THAT(t, std::memcmp(&ids[0], &ids[1], sizeof(ncclUniqueId)) != 0,
              "two ids to be different");
}

CONFORMANCE_TEST(unique_id, an_id_of_any_rank_serves) {
  ncclUniqueId own;
  NCCL_OK(t, ncclGetUniqueId(&own));
  const ncclUniqueId last = t.ExchangeValues(own).back();
  ncclComm_t comm = nullptr;
  NCCL_OK(t, ncclCommInitRank(&comm, t.size(), last, t.rank()));
  t.TakeOwnership(comm);
  Works(t, comm);
  t.Destroy(comm);
}

CONFORMANCE_TEST(unique_id, several_ids_for_one_communicator) {
  ncclUniqueId own;
  NCCL_OK(t, ncclGetUniqueId(&own));
  std::vector<ncclUniqueId> all = t.ExchangeValues(own);
  for (int ids = 1; t.ok() && ids <= t.size(); ids += t.size() > 1 ? t.size() - 1 : 1) {
    // An id serves one communicator, so each round uses new ones.
    std::vector<ncclUniqueId> some(all.end() - ids, all.end());
    ncclComm_t comm = nullptr;
    NCCL_OK(t, ncclCommInitRankScalable(&comm, t.size(), t.rank(), ids, some.data(), nullptr));
    t.TakeOwnership(comm);
    Works(t, comm);
    t.Destroy(comm);
    NCCL_OK(t, ncclGetUniqueId(&own));
    all = t.ExchangeValues(own);
  }
}

CONFORMANCE_TEST(unique_id, no_ids_or_more_than_ranks_are_invalid_argument) {
  std::vector<ncclUniqueId> ids(2);
  for (ncclUniqueId& id : ids) NCCL_OK(t, ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclCommInitRankScalable(&comm, 1, 0, 0, ids.data(), nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument,
               ncclCommInitRankScalable(&comm, 1, 0, 2, ids.data(), nullptr));
}

}  // namespace config_tests
}  // namespace conformance
