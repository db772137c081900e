// The variables that a tenant's program is started with.
#ifndef MCCS_LAB_ENVIRONMENT_H_
#define MCCS_LAB_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mccs::lab {

// NAME=value entries, as execve takes them. Values only; nothing here reads the process's own
// environment.
using Environment = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

// Empty when the variable is not set.
std::string Get(const Environment& environment, std::string_view name);

// Every variable that `environment` has and `changes` does not name passes through.
Environment With(Environment environment, const Variables& changes);

struct HostFacts {
  std::string host;
  std::string socket;
  std::string controller_endpoint;
  int32_t gpus = 0;
  bool has_network = false;  // of its own, where its name leads to its first NIC
};

// What ties a program to one host of the lab. `preload` goes before what LD_PRELOAD already has.
// Gloo looks for an interface by the host's name. On hosts without a network it uses lo instead,
// unless the caller names an interface.
Variables HostVariables(const HostFacts& facts, const std::vector<std::string>& preload,
                        const Environment& callers);

struct RankPlace {
  int32_t rank = 0;
  int32_t world_size = 1;
  int32_t host_index = 0;  // among the hosts of the job
  int32_t local_rank = 0;
  int32_t local_world_size = 1;
  std::string master_address;
  uint16_t master_port = 0;
};

// torchrun's names, and its default of one OpenMP thread for each of several processes.
Variables RankVariables(const RankPlace& place, const Environment& callers);

// Lines `export NAME='value'` for a shell.
std::string ExportLines(const Variables& variables);

}  // namespace mccs::lab

#endif  // MCCS_LAB_ENVIRONMENT_H_
