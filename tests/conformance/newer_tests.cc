// Functions of NCCL 2.29 and later, which the header of this build may lack: grow, the …Config
// variants of the collectives, and queries about a communicator. The structs are those of the newer
// headers.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "conformance/fixture.h"
#include "conformance/library.h"
#include "conformance/test_table.h"

namespace conformance {
namespace newer_tests {

constexpr unsigned kMagic = 0xcafebeef;
constexpr size_t kCount = 1000;

// Returns null and skips the test if the library is older.
template <typename Function>
Function Find(Test& t, const char* name, const char* since) {
  const auto found = reinterpret_cast<Function>(FindFunction(name));
  if (found == nullptr) t.Skip(std::string(name) + " requires NCCL " + since);
  return found;
}

// ---- Growing ------------------------------------------------------------------------------------

// All ranks but the last have a communicator and add the last one. One of them creates the id.
CONFORMANCE_TEST(newer, grow_adds_the_last_rank, .min_ranks = 2) {
  const auto id_of =
      Find<ncclResult_t (*)(ncclComm_t, ncclUniqueId*)>(t, "ncclCommGetUniqueId", "2.29");
  const auto grow =
      Find<ncclResult_t (*)(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*)>(
          t, "ncclCommGrow", "2.29");
  if (!t.ok()) return;
  const bool joins = t.rank() == t.size() - 1;
  ncclComm_t world = t.World();
  ncclComm_t old = nullptr;
  NCCL_OK(t, ncclCommSplit(world, joins ? NCCL_SPLIT_NOCOLOR : 0, t.rank(), &old, nullptr));
  if (!joins) t.TakeOwnership(old);
  ncclUniqueId id{};
  if (t.is_root()) NCCL_OK(t, id_of(old, &id));
  id = t.ExchangeValues(id)[0];
  ncclComm_t grown = nullptr;
  if (joins) {
    NCCL_OK(t, grow(nullptr, t.size(), &id, t.rank(), &grown, nullptr));
  } else {
    NCCL_OK(t, grow(old, t.size(), t.is_root() ? &id : nullptr, -1, &grown, nullptr));
  }
  t.TakeOwnership(grown);
  int rank = -1;
  NCCL_OK(t, ncclCommUserRank(grown, &rank));
  t.ExpectEqual(t.rank(), rank, "the rank in the grown communicator");
  Works(t, grown);
  if (!joins) {
    Works(t, old, t.rank(), t.size() - 1);
    t.Destroy(old);
  }
  t.Destroy(grown);
}

// ---- Collectives with a configuration -----------------------------------------------------------

// ncclConfigExt_t.
struct Extension {
  const Extension* next;
  int vendor;
  int option;
  uint64_t value;
};

// ncclCollConfig_t of 2.32, with the values of its initializer.
struct CollConfig {
  size_t size = sizeof(CollConfig);
  unsigned magic = kMagic;
  unsigned version = NCCL_VERSION(2, 32, 3);
  const Extension* extensions = nullptr;
  int min_ctas = NCCL_CONFIG_UNDEF_INT;
  int max_ctas = NCCL_CONFIG_UNDEF_INT;
  int nvls_ctas = NCCL_CONFIG_UNDEF_INT;
  int cluster_size = NCCL_CONFIG_UNDEF_INT;
  const char* algorithms = nullptr;
  int force_algorithms = 1;
  int cta_policy = NCCL_CONFIG_UNDEF_INT;
  uint64_t profiler_tag = 0;
  void* launch_event = nullptr;
};

// Each rank sends rank + 1 to all. `Tail`: the parameters between type and communicator.
template <typename... Tail>
class ConfiguredCall {
 public:
  using Function = ncclResult_t (*)(const void*, void*, size_t, ncclDataType_t, Tail..., ncclComm_t,
                                    cudaStream_t, const CollConfig*);
  ConfiguredCall(Test& t, const char* name)
      : t_(t),
        function_(Find<Function>(t, name, "2.32")),
        stream_(t.NewStream()),
        buffers_(t, kCount * static_cast<size_t>(t.size()), stream_, t.rank() + 1) {
    buffers_.receive.Fill(0);
  }
  void Run(const CollConfig* config, Tail... tail) {
    if (!t_.ok()) return;
    NCCL_OK(t_, function_(buffers_.send.data(), buffers_.receive.data(), kCount, ncclInt32, tail...,
                          t_.World(), stream_, config));
  }
  // Checks the received piece at this position.
  void ExpectPiece(int place, int32_t value) {
    IntBuffer piece(t_, buffers_.receive.data() + kCount * static_cast<size_t>(place), kCount,
                    stream_);
    piece.Expect(value, "a received piece");
  }
  void ExpectPieceOfEach() {
    for (int rank = 0; rank < t_.size(); ++rank) ExpectPiece(rank, rank + 1);
  }

 private:
  Test& t_;
  const Function function_;
  cudaStream_t stream_;
  IntBuffers buffers_;
};

// Unknown vendor options are ignored.
void WithEach(const std::function<void(const CollConfig*)>& run) {
  run(nullptr);
  CollConfig config;
  run(&config);
  const Extension strange{.next = nullptr, .vendor = 0x7a7a, .option = 1, .value = 17};
  config.extensions = &strange;
  config.max_ctas = 4;
  run(&config);
}

CONFORMANCE_TEST(newer, all_reduce_config) {
  ConfiguredCall<ncclRedOp_t> call(t, "ncclAllReduceConfig");
  WithEach([&](const CollConfig* config) {
    call.Run(config, ncclSum);
    call.ExpectPiece(0, SumOfRanks(t.size()));
  });
}

CONFORMANCE_TEST(newer, reduce_scatter_config) {
  ConfiguredCall<ncclRedOp_t> call(t, "ncclReduceScatterConfig");
  WithEach([&](const CollConfig* config) {
    call.Run(config, ncclSum);
    call.ExpectPiece(0, SumOfRanks(t.size()));
  });
}

CONFORMANCE_TEST(newer, reduce_config) {
  ConfiguredCall<ncclRedOp_t, int> call(t, "ncclReduceConfig");
  WithEach([&](const CollConfig* config) {
    call.Run(config, ncclSum, 0);
    call.ExpectPiece(0, t.is_root() ? SumOfRanks(t.size()) : 0);
  });
}

CONFORMANCE_TEST(newer, broadcast_config) {
  ConfiguredCall<int> call(t, "ncclBroadcastConfig");
  const int root = t.size() - 1;
  WithEach([&](const CollConfig* config) {
    call.Run(config, root);
    call.ExpectPiece(0, root + 1);
  });
}

CONFORMANCE_TEST(newer, all_gather_config) {
  ConfiguredCall<> call(t, "ncclAllGatherConfig");
  WithEach([&](const CollConfig* config) {
    call.Run(config);
    call.ExpectPieceOfEach();
  });
}

CONFORMANCE_TEST(newer, all_to_all_config) {
  ConfiguredCall<> call(t, "ncclAlltoAllConfig");
  WithEach([&](const CollConfig* config) {
    call.Run(config);
    call.ExpectPieceOfEach();
  });
}

CONFORMANCE_TEST(newer, gather_config) {
  ConfiguredCall<int> call(t, "ncclGatherConfig");
  WithEach([&](const CollConfig* config) {
    call.Run(config, 0);
    if (t.is_root()) call.ExpectPieceOfEach();
  });
}

CONFORMANCE_TEST(newer, scatter_config) {
  ConfiguredCall<int> call(t, "ncclScatterConfig");
  WithEach([&](const CollConfig* config) {
    call.Run(config, 0);
    call.ExpectPiece(0, 1);
  });
}

CONFORMANCE_TEST(newer, a_configuration_without_its_magic_is_rejected) {
  using Function = ncclResult_t (*)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
                                    ncclComm_t, cudaStream_t, const CollConfig*);
  const auto function = Find<Function>(t, "ncclAllReduceConfig", "2.32");
  if (!t.ok()) return;
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream, 1);
  CollConfig config;
  config.magic = 0;
  NCCL_RETURNS(t, ncclInvalidArgument,
               function(buffers.send.data(), buffers.receive.data(), kCount, ncclInt32, ncclSum,
                        comm, stream, &config));
  Works(t, comm);
}

// ---- Queries ------------------------------------------------------------------------------------

CONFORMANCE_TEST(newer, query_properties) {
  // The fields of ncclCommProperties_t in 2.29.
  struct Properties {
    size_t size = sizeof(Properties);
    unsigned magic = kMagic;
    unsigned version = NCCL_VERSION(2, 29, 1);
    int rank = -1;
    int ranks = -1;
    int cuda_device = -1;
    int nvml_device = -1;
    bool device_api = true;
    bool multimem = true;
    int gin_type = -1;
    int lsa_teams = -1;
  };
  const auto query =
      Find<ncclResult_t (*)(ncclComm_t, Properties*)>(t, "ncclCommQueryProperties", "2.29");
  if (!t.ok()) return;
  Properties properties;
  NCCL_OK(t, query(t.World(), &properties));
  t.ExpectEqual(t.rank(), properties.rank, "rank");
  t.ExpectEqual(t.size(), properties.ranks, "nRanks");
  t.ExpectEqual(t.self().device, properties.cuda_device, "cudaDev");
  NCCL_RETURNS(t, ncclInvalidArgument, query(t.World(), nullptr));
}

}  // namespace newer_tests
}  // namespace conformance
