// The state behind test_cuda.h, which its helpers and the layer share.
#ifndef MCCS_TESTS_UNIT_SHIM_TEST_CUDA_WORLD_H_
#define MCCS_TESTS_UNIT_SHIM_TEST_CUDA_WORLD_H_

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/shim/test_cuda.h"

namespace mccs::test_cuda {

enum class Kind { kDevice, kHost, kPool };

struct Memory {
  size_t bytes;
  Kind kind;
};

struct World {
  std::mutex mutex;
  // Of the helpers.
  std::map<void*, Memory> memory;
  std::map<std::byte*, size_t> chunks;
  std::map<CUgraph, CUgraphExec> executables;
  // Records of the layer.
  std::map<CUstream, std::vector<Enqueued>> enqueued;
  std::set<CUdeviceptr> allocations;
  std::set<CUdeviceptr> reservations;
  size_t registered = 0;
  int kernels_prepared = 0;
  std::vector<std::string> images_loaded;
  int requested_handle_types = 0;
  std::map<CUgraph, int> objects;  // user objects of a graph
  int destroyed_objects = 0;
  int64_t used_before = 0;
  // Failures and pretences.
  std::map<std::string, CUresult, std::less<>> failures;
  std::map<CUdevice_attribute, int> attributes;
  bool fabric_permitted = true;
  bool gpus_separated = false;
  std::map<CUstream, unsigned long long> stream_ids;
  CUdeviceptr held_destination = 0;
  bool has_held_copy = false;
};

inline World& TheWorld() {
  static auto* const world = new World;  // a program may call CUDA while it ends
  return *world;
}

template <typename Work>
auto WithWorld(Work work) {
  std::lock_guard lock(TheWorld().mutex);
  return work(TheWorld());
}

}  // namespace mccs::test_cuda

#endif  // MCCS_TESTS_UNIT_SHIM_TEST_CUDA_WORLD_H_
