// The environment of a lab's processes: the paths of its programs and libraries, and environment
// variables.
#ifndef MCCS_LAB_ENVIRONMENT_H_
#define MCCS_LAB_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mccs::lab {

// Paths of a lab's programs and libraries, which the build puts next to this program. Absolute.
struct Products {
  std::string lab;  // this program
  std::string mccsd;
  std::string controller;
  std::string mccsctl;
  std::string vm_preparation{};  // rdma_vms/prepare.py
  std::string emulation{};       // directory of the emulated CUDA and NVML
  // LD_PRELOAD of tenants' programs, in order: the sanitizer's runtime, if any (it must be first),
  // libmccs-free-hooks.so (it must precede CUDA's libraries), the emulated CUDA, libnccl.so.2.
  std::vector<std::string> preload;
};

// kNotFound: the message names the missing file and how to build it.
absl::StatusOr<Products> FindProducts();

// NAME=value entries, as execve takes them. Nothing here reads the process's own environment.
using Environment = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

// Empty if the variable is not set.
std::string Get(const Environment& environment, std::string_view name);

// Returns `environment` with `changes` applied; other variables stay the same.
Environment With(Environment environment, const Variables& changes);

struct HostFacts {
  std::string host;
  std::string socket;
  std::string controller_endpoint;
  std::string operator_certificate;  // its directory
  int32_t gpus = 0;
  bool has_network = false;  // its own network; its name resolves to its first NIC
};

// Variables that bind a program to one host of the lab. `preload` precedes the libraries already in
// LD_PRELOAD. Gloo selects an interface by the host's name; on hosts without their own network it
// uses lo instead, unless the caller sets an interface.
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

// torchrun's variables, and its default of one OpenMP thread if there are several processes.
Variables RankVariables(const RankPlace& place, const Environment& callers);

// Lines `export NAME='value'` for a shell.
std::string ExportLines(const Variables& variables);

}  // namespace mccs::lab

#endif  // MCCS_LAB_ENVIRONMENT_H_
