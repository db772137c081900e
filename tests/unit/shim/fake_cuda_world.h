// The fake CUDA's state, for its own parts.
#ifndef MCCS_TESTS_UNIT_SHIM_FAKE_CUDA_WORLD_H_
#define MCCS_TESTS_UNIT_SHIM_FAKE_CUDA_WORLD_H_

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/unit/shim/fake_cuda.h"

namespace mccs::fake_cuda {

struct Memory {
  size_t bytes;
  int device;
  Kind kind;
  unsigned long long id;
};

struct Event {
  uint64_t recorded = 0;
  uint64_t reached = 0;
};

struct Stream {
  unsigned long long id;
  bool alive = true;
  std::deque<Queued> queue;
};

struct Graph {
  unsigned long long capture;
  bool valid = true;
  std::vector<Queued> nodes;
  std::vector<std::pair<CUhostFn, void*>> objects;
};

struct World {
  std::mutex mutex;
  std::map<uint64_t, Memory> memory;
  std::map<CUstream, std::vector<Stream>>
      streams;  // by handle; only the last stream of a handle is alive
  std::vector<CUstream> free_handles;
  std::deque<Event> events;  // including destroyed ones, which a stream may still reach
  std::vector<std::vector<char>*> handles;
  unsigned long long next_id = 1;
  std::map<void*, size_t> registered;
  CUresult stream_error = CUDA_SUCCESS;
  CUresult allocation_error = CUDA_SUCCESS;
  CUresult library_error = CUDA_SUCCESS;
  std::atomic<int> kernels_prepared = 0;  // written by any thread that creates a communicator
  std::map<CUstream, std::shared_ptr<Graph>> captures;
  std::map<CUgraph, std::shared_ptr<Graph>> graphs;
};

World& TheWorld();
void ResetVirtualMemory();  // fake_virtual_memory.cc

// Adds an item to the stream, or to the graph that captures it.
CUresult Enqueue(CUstream handle, Queued what);

}  // namespace mccs::fake_cuda

#endif  // MCCS_TESTS_UNIT_SHIM_FAKE_CUDA_WORLD_H_
