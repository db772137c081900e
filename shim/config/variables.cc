#include "shim/config/variables.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "shim/config/diagnostics.h"
#include "shim/config/settings.h"

namespace mccs::shim {
namespace {

constexpr Variable kVariables[] = {
    {"CUDA_DEVICE_MAX_CONNECTIONS", Treatment::kHonoured, ValueType::kInteger, "8",
     "any value works: waiting streams do not block a hardware queue; copies of staged buffers do"},
    {"CUDA_LAUNCH_BLOCKING", Treatment::kHonoured, ValueType::kInteger, "0",
     "1: a call returns when its streams have completed its work"},
    {"MCCS_EXPORT_LEASE", Treatment::kHonoured, ValueType::kText, "30",
     "seconds after which the daemon unmaps unused memory; 0: never"},
    {"MCCS_FALLBACK", Treatment::kHonoured, ValueType::kText, "error",
     "nccl: a process that finds no daemon may use the real library instead; error: it may not"},
    {"MCCS_INIT_TIMEOUT", Treatment::kHonoured, ValueType::kText, "0",
     "seconds that init waits for missing ranks; 0: no limit. With MCCS_FALLBACK=nccl and unset: "
     "60"},
    {"MCCS_NCCL_PATH", Treatment::kHonoured, ValueType::kText, "",
     "the real library for MCCS_FALLBACK; unset: the next libnccl.so.2 in the library search path"},
    {"MCCS_SOCKET", Treatment::kHonoured, ValueType::kText, "/run/mccs/mccsd.sock",
     "the daemon's socket"},
    {"MCCS_STREAM_WAIT", Treatment::kHonoured, ValueType::kText, "kernel",
     "how streams wait for the daemon: kernel, or memop, which blocks a hardware queue"},
    {"MCCS_WARN_AFTER", Treatment::kHonoured, ValueType::kText, "10",
     "seconds after which the daemon logs the ranks that an operation waits for"},
    {"NCCL_ALGO", Treatment::kHint, ValueType::kText, "",
     "requested algorithms; with ^: excluded algorithms"},
    {"NCCL_ALLGATHERV_ENABLE", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_ASYNC_ERROR_HANDLING", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_BLOCKING_WAIT", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_BUFFSIZE", Treatment::kHint, ValueType::kInteger, "", "bytes of a channel's buffer"},
    {"NCCL_CFT_*", Treatment::kIgnored, ValueType::kText, "", "MCCS has no such mechanism"},
    {"NCCL_CGA_CLUSTER_SIZE", Treatment::kIgnored, ValueType::kText, "",
     "MCCS chooses the blocks and threads of its kernels"},
    {"NCCL_CHECK_POINTERS", Treatment::kHonoured, ValueType::kInteger, "0",
     "1: buffers must be on the communicator's GPU; ranges are always checked"},
    {"NCCL_COLLNET_*", Treatment::kIgnored, ValueType::kText, "", "MCCS has no such mechanism"},
    {"NCCL_COMM_BLOCKING", Treatment::kHonoured, ValueType::kInteger, "",
     "0 or 1: overrides the config's `blocking`"},
    {"NCCL_COMM_ID", Treatment::kHonoured, ValueType::kText, "",
     "host:port on rank 0's host, instead of a unique id; with certificates only a name: no port "
     "is opened"},
    {"NCCL_COMM_SHRINK_SHARE_RESOURCES", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_COMM_SPLIT_SHARE_RESOURCES", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_CONF_FILE", Treatment::kHonoured, ValueType::kText, "",
     "a file of variables, read instead of ~/.nccl.conf"},
    {"NCCL_CROSS_NIC", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_CTA_POLICY", Treatment::kIgnored, ValueType::kText, "",
     "MCCS chooses the blocks and threads of its kernels"},
    {"NCCL_CUMEM_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_CUMEM_ENABLE", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_DEBUG", Treatment::kHonoured, ValueType::kText, "", "VERSION, WARN, INFO or TRACE"},
    {"NCCL_DEBUG_FILE", Treatment::kHonoured, ValueType::kText, "",
     "file for lines of WARN and above; %h: host, %p: process"},
    {"NCCL_DEBUG_SUBSYS", Treatment::kHonoured, ValueType::kText, "INIT,BOOTSTRAP,ENV",
     "subsystems whose INFO lines are logged; with ^: excluded subsystems"},
    {"NCCL_DEBUG_TIMESTAMP_*", Treatment::kIgnored, ValueType::kText, "",
     "the log has a fixed line format"},
    {"NCCL_DESYNC_DEBUG", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_DMABUF_ENABLE", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_ENABLE_TIMING", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_ENV_PLUGIN", Treatment::kWarned, ValueType::kText, "",
     "no environment plugin is loaded"},
    {"NCCL_GDRCOPY_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_GDR_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_GIN_*", Treatment::kIgnored, ValueType::kText, "", "MCCS has no such mechanism"},
    {"NCCL_GIN_PLUGIN", Treatment::kWarned, ValueType::kText, "",
     "no device network plugin is loaded: the daemon moves the data"},
    {"NCCL_GRAPH_*", Treatment::kIgnored, ValueType::kText, "",
     "the operator describes the topology to the controller"},
    {"NCCL_HOME", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_HOSTID", Treatment::kIgnored, ValueType::kText, "", "the daemon identifies its host"},
    {"NCCL_IB_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_IB_GID_INDEX", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_IB_HCA", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_IB_SL", Treatment::kHint, ValueType::kInteger, "", "service level of the network"},
    {"NCCL_IB_TC", Treatment::kHint, ValueType::kInteger, "",
     "traffic class, unless the config sets one"},
    {"NCCL_IGNORE_*", Treatment::kIgnored, ValueType::kText, "", "the daemon identifies its host"},
    {"NCCL_INCLUDE_*", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_LAUNCH_*", Treatment::kIgnored, ValueType::kText, "",
     "MCCS chooses the blocks and threads of its kernels"},
    {"NCCL_LEGACY_CUDA_REGISTER", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_LIB_*", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_LL128_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_LL_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_LOCAL_REGISTER", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_MAX_CTAS", Treatment::kHint, ValueType::kInteger, "",
     "maximum number of channels; overrides the config's maxCTAs"},
    {"NCCL_MAX_NCHANNELS", Treatment::kHint, ValueType::kInteger, "",
     "maximum number of channels; overrides the config's maxCTAs"},
    {"NCCL_MAX_P2P_NCHANNELS", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_MEM_SYNC_DOMAIN", Treatment::kIgnored, ValueType::kText, "",
     "MCCS's kernels do not use it"},
    {"NCCL_MIN_CTAS", Treatment::kHint, ValueType::kInteger, "",
     "minimum number of channels; overrides the config's minCTAs"},
    {"NCCL_MIN_NCHANNELS", Treatment::kHint, ValueType::kInteger, "",
     "minimum number of channels; overrides the config's minCTAs"},
    {"NCCL_MIN_P2P_NCHANNELS", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_MNNVL_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_MULTI_RANK_GPU_ENABLE", Treatment::kHonoured, ValueType::kInteger, "0",
     "1: several ranks may share a GPU"},
    {"NCCL_NCHANNELS_PER_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_NET", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_NET_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_NET_PLUGIN", Treatment::kWarned, ValueType::kText, "",
     "no network plugin is loaded: the daemon moves the data"},
    {"NCCL_NSOCKS_PERTHREAD", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_NTHREADS", Treatment::kIgnored, ValueType::kText, "",
     "MCCS chooses the blocks and threads of its kernels"},
    {"NCCL_NVB_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_NVLS_*", Treatment::kIgnored, ValueType::kText, "", "MCCS has no such mechanism"},
    {"NCCL_NVLS_ENABLE", Treatment::kIgnored, ValueType::kText, "", "MCCS has no such mechanism"},
    {"NCCL_OOB_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_P2P_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_PARAM_DUMP_ALL", Treatment::kHonoured, ValueType::kText, "false",
     "true: ncclParam* also lists ignored variables"},
    {"NCCL_PAT_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_PROFILER_PLUGIN", Treatment::kWarned, ValueType::kText, "",
     "no profiler plugin is loaded: the daemon moves the data"},
    {"NCCL_PROTO", Treatment::kHint, ValueType::kText, "",
     "requested protocols; with ^: excluded protocols"},
    {"NCCL_PROXY_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_PXN_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_RAS_*", Treatment::kIgnored, ValueType::kText, "", "MCCS has no such mechanism"},
    {"NCCL_ROOT", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_RUNTIME_CONNECT", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_SET_STACK_SIZE", Treatment::kIgnored, ValueType::kText, "",
     "MCCS's kernels do not use it"},
    {"NCCL_SET_THREAD_NAME", Treatment::kIgnored, ValueType::kText, "",
     "the daemon's threads move the data, not threads of this process"},
    {"NCCL_SHM_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_SHM_DISABLE", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_SINGLE_RING_THRESHOLD", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_SOCKET_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_SOCKET_IFNAME", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_SYM_*", Treatment::kIgnored, ValueType::kText, "", "MCCS has no such mechanism"},
    {"NCCL_TESTS_*", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_THREAD_THRESHOLDS", Treatment::kIgnored, ValueType::kText, "",
     "MCCS chooses the blocks and threads of its kernels"},
    {"NCCL_TOPO_*", Treatment::kIgnored, ValueType::kText, "",
     "the operator describes the topology to the controller"},
    {"NCCL_TOPO_FILE", Treatment::kIgnored, ValueType::kText, "",
     "the operator describes the topology to the controller"},
    {"NCCL_TREE_THRESHOLD", Treatment::kIgnored, ValueType::kText, "",
     "the daemon schedules operations and buffers"},
    {"NCCL_TUNER_CONFIG_FILE", Treatment::kWarned, ValueType::kText, "",
     "no tuner plugin is loaded: the daemon moves the data"},
    {"NCCL_TUNER_PLUGIN", Treatment::kWarned, ValueType::kText, "",
     "no tuner plugin is loaded: the daemon moves the data"},
    {"NCCL_UID_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses addresses, interfaces and their settings"},
    {"NCCL_VERSION", Treatment::kIgnored, ValueType::kText, "",
     "read by frameworks or test programs, not by this library"},
    {"NCCL_WARN_ENABLE_DEBUG_INFO", Treatment::kIgnored, ValueType::kText, "",
     "the log has a fixed line format"},
    {"NCCL_WIN_*", Treatment::kIgnored, ValueType::kText, "",
     "the daemon chooses how ranks of a host exchange data"},
    {"NCCL_WORK_*", Treatment::kIgnored, ValueType::kText, "",
     "MCCS chooses the blocks and threads of its kernels"},
};

constexpr bool Less(const Variable& a, const Variable& b) {
  return std::string_view(a.name) < std::string_view(b.name);
}
static_assert(std::is_sorted(std::begin(kVariables), std::end(kVariables), Less));

void Report(const std::string& name, const Setting& setting) {
  const Variable* variable = FindVariable(name);
  const std::string set = absl::StrCat(name, " (", setting.source, ", '", setting.value, "')");
  if (variable == nullptr) {
    LogLine(Verbosity::kWarn,
            absl::StrCat(set, " is ignored: unknown variable; check its spelling"));
    return;
  }
  switch (variable->treatment) {
    case Treatment::kHonoured:
      LogLine(Verbosity::kInfo, absl::StrCat(set, " is honoured"), Subsystem::kEnv);
      break;
    case Treatment::kHint:
      LogLine(Verbosity::kInfo, absl::StrCat(set, " is sent to the daemon as a hint"),
              Subsystem::kEnv);
      break;
    case Treatment::kIgnored:
      LogLine(Verbosity::kInfo, absl::StrCat(set, " is ignored: ", variable->note),
              Subsystem::kEnv);
      break;
    case Treatment::kWarned:
      LogLine(Verbosity::kWarn, absl::StrCat(set, " has no effect: ", variable->note));
      break;
  }
}

}  // namespace

std::string_view NameOf(Treatment treatment) {
  switch (treatment) {
    case Treatment::kHonoured:
      return "honoured";
    case Treatment::kHint:
      return "hint";
    case Treatment::kIgnored:
      return "ignored";
    case Treatment::kWarned:
      return "warned";
  }
  return "";
}

std::span<const Variable> Variables() { return kVariables; }

const Variable* FindVariable(std::string_view name) {
  const Variable* family = nullptr;
  size_t longest = 0;
  for (const Variable& variable : kVariables) {
    if (variable.name == name) return &variable;
    if (!variable.is_family()) continue;
    const size_t prefix = std::strlen(variable.name) - 1;
    if (prefix <= longest || name.compare(0, prefix, variable.name, prefix) != 0) continue;
    family = &variable;
    longest = prefix;
  }
  return family;
}

void ReportVariablesOnce() {
  static std::atomic<bool> logged{false};
  if (IsLogged(Verbosity::kWarn) && !logged.exchange(true)) ReportVariables();
}

void ReportVariables() {
  for (const auto& [name, setting] : SettingsWithPrefix("NCCL_")) Report(name, setting);
}

}  // namespace mccs::shim
