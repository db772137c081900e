#include <array>
#include <cstring>

#include "shim/include/mccs/nccl_options.h"
#include "tests/fuzz/call_table.h"
#include "tests/fuzz/newer_nccl.h"

namespace mccs {
namespace {

// Source and destination of one operation.
struct Ends {
  explicit Ends(FuzzTargets& v) : send(v.AnyMemory()), recv(v.OneIn(3) ? send : v.AnyMemory()) {}
  void* send;
  void* recv;
};

// The last argument of the …Config functions: random values in a mostly valid layout.
class AnyConfig {
 public:
  explicit AnyConfig(FuzzTargets& v) {
    for (size_t i = 0; i < list_.size(); ++i) {
      list_[i] = {.next = v.OneIn(8)             ? list_.data()
                          : i + 1 < list_.size() ? &list_[i + 1]
                                                 : nullptr,
                  .vendor = v.OneIn(2) ? MCCS_NCCL_VENDOR_ID : v.AnyInt(),
                  .option = v.AnyInt(),
                  .value = {.raw = reinterpret_cast<void*>(v.AnyBits())}};
    }
    auto* bytes = reinterpret_cast<unsigned char*>(&config_);
    for (size_t i = 0; i < sizeof(config_); ++i) bytes[i] = static_cast<unsigned char>(v.AnyBits());
    if (!v.OneIn(8)) config_.magic = 0xcafebeef;
    if (!v.OneIn(8)) config_.size = sizeof(config_) + v.Below(100);
    if (config_.size > sizeof(config_) && v.OneIn(2)) config_.size = v.Below(sizeof(config_));
    if (!v.OneIn(8)) {
      config_.min_ctas = config_.max_ctas = config_.nvls_ctas = config_.cluster_size =
          config_.cta_policy = NCCL_CONFIG_UNDEF_INT;
      config_.force_algorithms = 1;
      config_.launch_event = nullptr;
    }
    // A string in the program's own memory must be valid.
    config_.algorithms = v.OneIn(2) ? nullptr : "^ring;tree:";
    config_.extensions = v.OneIn(4) ? nullptr : list_.data();
    given_ = v.OutputPointer(&config_);
  }
  operator const shim::CollConfig*() const { return given_; }

 private:
  std::array<shim::ConfigExtension, 4> list_;
  shim::CollConfig config_;
  const shim::CollConfig* given_;
};

ncclWindow_t AnyWindow(FuzzTargets& v) { return static_cast<ncclWindow_t>(v.AnyRegistration()); }

void Keep(FuzzTargets& v, void* registration) {
  if (registration != nullptr && v.registrations.size() < 100) {
    v.registrations.push_back(registration);
  }
}

void CreateOperator(FuzzTargets& v) {
  uint64_t scalar = v.AnyBits();
  const bool on_device = v.OneIn(2);
  ncclRedOpCreatePreMulSum(v.OutputPointer(&v.user_operator),
                           on_device ? v.AnyMemory() : v.OutputPointer(&scalar), v.AnyType(),
                           on_device ? ncclScalarDevice : ncclScalarHostImmediate, v.AnyComm());
}

void Register(FuzzTargets& v) {
  void* handle = nullptr;
  ncclCommRegister(v.AnyComm(), v.AnyMemory(), v.AnyCount(), v.OutputPointer(&handle));
  Keep(v, handle);
}

void RegisterWindow(FuzzTargets& v) {
  ncclWindow_t window = nullptr;
  const ncclComm_t comm = v.AnyComm();
  if (v.WaitsForPeers(comm)) return;
  ncclCommWindowRegister(comm, v.AnyMemory(), v.AnyCount(), v.OutputPointer(&window), v.AnyInt());
  Keep(v, window);
}

void AskWindow(FuzzTargets& v) {
  void* pointer = nullptr;
  ncclWinGetUserPtr(v.AnyComm(), AnyWindow(v), v.OutputPointer(&pointer));
}

void Put(FuzzTargets& v) {
  ncclPutSignal(v.AnyMemory(), v.AnyCount(), v.AnyType(), v.AnyInt(), AnyWindow(v), v.AnyCount(),
                v.AnyInt(), v.AnyInt(), static_cast<unsigned>(v.AnyInt()), v.AnyComm(),
                v.AnyStream());
}

void WaitForSignals(FuzzTargets& v) {
  std::array<WaitSignalDesc, 4> wanted;
  for (WaitSignalDesc& each : wanted) {
    each = {v.AnyInt(), v.AnyInt(), v.AnyInt(), v.AnyInt()};
  }
  const int count = v.OneIn(8) ? -1 : static_cast<int>(v.Below(wanted.size() + 1));
  v.signals_awaited = true;
  ncclWaitSignal(count, v.OutputPointer(wanted.data()), v.AnyComm(), v.AnyStream());
}

void StartGroup(FuzzTargets& v) {
  if (v.depth() == kMaxDepth) return;
  ncclGroupStart();
  v.GroupStarted();
}

void EndGroup(FuzzTargets& v) {
  ncclGroupEnd();
  v.GroupEnded();
}

void SimulateEnd(FuzzTargets& v) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  if (v.OneIn(4)) info.magic = static_cast<unsigned>(v.AnyBits());
  if (v.OneIn(4)) info.size = v.AnyBits();
  ncclGroupSimulateEnd(v.OutputPointer(&info));
  v.GroupEnded();
}

// For operations that reduce, that have a root, and others: with and without a configuration.
#define REDUCES(name)                                                                            \
  {#name,                                                                                        \
   [](FuzzTargets& v) {                                                                          \
     const Ends at(v);                                                                           \
     nccl##name(at.send, at.recv, v.AnyCount(), v.AnyType(), v.AnyOperator(), v.AnyComm(),       \
                v.AnyStream());                                                                  \
   }},                                                                                           \
  {                                                                                              \
#name "Config", [](FuzzTargets& v) {                                                           \
         const Ends at(v);                                                                        \
         nccl##name##Config(at.send, at.recv, v.AnyCount(), v.AnyType(), v.AnyOperator(),         \
                            v.AnyComm(), v.AnyStream(), AnyConfig(v));                            \
       } \
  }
#define HAS_ROOT(name)                                                                           \
  {#name,                                                                                        \
   [](FuzzTargets& v) {                                                                          \
     const Ends at(v);                                                                           \
     nccl##name(at.send, at.recv, v.AnyCount(), v.AnyType(), v.AnyInt(), v.AnyComm(),            \
                v.AnyStream());                                                                  \
   }},                                                                                           \
  {                                                                                              \
#name "Config", [](FuzzTargets& v) {                                                           \
         const Ends at(v);                                                                        \
         nccl##name##Config(at.send, at.recv, v.AnyCount(), v.AnyType(), v.AnyInt(), v.AnyComm(), \
                            v.AnyStream(), AnyConfig(v));                                         \
       } \
  }
#define EXCHANGES(name)                                                                          \
  {#name,                                                                                        \
   [](FuzzTargets& v) {                                                                          \
     const Ends at(v);                                                                           \
     nccl##name(at.send, at.recv, v.AnyCount(), v.AnyType(), v.AnyComm(), v.AnyStream());        \
   }},                                                                                           \
  {                                                                                              \
#name "Config", [](FuzzTargets& v) {                                                           \
         const Ends at(v);                                                                        \
         nccl##name##Config(at.send, at.recv, v.AnyCount(), v.AnyType(), v.AnyComm(),             \
                            v.AnyStream(), AnyConfig(v));                                         \
       } \
  }

const FuzzedCall kOperations[] = {
    REDUCES(AllReduce),
    REDUCES(ReduceScatter),
    HAS_ROOT(Broadcast),
    HAS_ROOT(Gather),
    HAS_ROOT(Scatter),
    EXCHANGES(AllGather),
    EXCHANGES(AlltoAll),
    {"Reduce",
     [](FuzzTargets& v) {
       const Ends at(v);
       ncclReduce(at.send, at.recv, v.AnyCount(), v.AnyType(), v.AnyOperator(), v.AnyInt(),
                  v.AnyComm(), v.AnyStream());
     }},
    {"ReduceConfig",
     [](FuzzTargets& v) {
       const Ends at(v);
       ncclReduceConfig(at.send, at.recv, v.AnyCount(), v.AnyType(), v.AnyOperator(), v.AnyInt(),
                        v.AnyComm(), v.AnyStream(), AnyConfig(v));
     }},
    {"Bcast",
     [](FuzzTargets& v) {
       ncclBcast(v.AnyMemory(), v.AnyCount(), v.AnyType(), v.AnyInt(), v.AnyComm(), v.AnyStream());
     }},
    {"Send",
     [](FuzzTargets& v) {
       ncclSend(v.AnyMemory(), v.AnyCount(), v.AnyType(), v.AnyInt(), v.AnyComm(), v.AnyStream());
     },
     24},
    {"Recv",
     [](FuzzTargets& v) {
       ncclRecv(v.AnyMemory(), v.AnyCount(), v.AnyType(), v.AnyInt(), v.AnyComm(), v.AnyStream());
     },
     24},
    {"PutSignal", Put},
    {"Signal",
     [](FuzzTargets& v) {
       ncclSignal(v.AnyInt(), v.AnyInt(), v.AnyInt(), static_cast<unsigned>(v.AnyInt()),
                  v.AnyComm(), v.AnyStream());
     }},
    {"WaitSignal", WaitForSignals},
    {"RedOpCreatePreMulSum", CreateOperator},
    {"RedOpDestroy", [](FuzzTargets& v) { ncclRedOpDestroy(v.AnyOperator(), v.AnyComm()); }},
    {"CommRegister", Register},
    {"CommDeregister",
     [](FuzzTargets& v) { ncclCommDeregister(v.AnyComm(), v.AnyRegistration()); }},
    {"CommWindowRegister", RegisterWindow},
    {"CommWindowDeregister",
     [](FuzzTargets& v) { ncclCommWindowDeregister(v.AnyComm(), AnyWindow(v)); }},
    {"WinGetUserPtr", AskWindow},
    {"GroupStart", StartGroup, 24},
    {"GroupEnd", EndGroup, 40},
    {"GroupSimulateEnd", SimulateEnd},
};

#undef REDUCES
#undef HAS_ROOT
#undef EXCHANGES

}  // namespace

std::span<const FuzzedCall> OperationCalls() { return kOperations; }

}  // namespace mccs
