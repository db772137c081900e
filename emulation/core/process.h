// The emulation's state in one process, and the settings of each of its threads.
//
// CUDA's API consists of global functions, so this is the one global state of the emulation. cuInit
// creates it, and nothing destroys it: a program may use CUDA until it ends, and the engine's
// threads outlive main(). A library constructor creates nothing, because every child of a job
// inherits the preload. A child that was forked after its parent used CUDA cannot use it, as with
// NVIDIA's driver.
#ifndef MCCS_EMULATION_CORE_PROCESS_H_
#define MCCS_EMULATION_CORE_PROCESS_H_

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "emulation/core/engine.h"
#include "emulation/core/event.h"
#include "emulation/core/gpu.h"
#include "emulation/core/graph_state.h"
#include "emulation/core/handle_table.h"
#include "emulation/core/kernel_table.h"
#include "emulation/core/memory_map.h"
#include "emulation/core/memory_pool.h"
#include "emulation/core/options.h"
#include "emulation/core/virtual_memory.h"

namespace mccs::emulation {

// The primary context of one GPU; the CUcontext is its address.
struct Context {
  int gpu = 0;
  std::atomic<int> retained{0};
  std::atomic<unsigned> flags{0};
  std::atomic<int> launches{0};                 // counted if the GPU is going to fail
  std::atomic<CUresult> failure{CUDA_SUCCESS};  // what all calls return from then on
};

// Peer access between GPUs. A program must enable each direction once.
class PeerAccess {
 public:
  // LIFETIME: the arguments outlive this. `gpus`: those that the program sees.
  PeerAccess(const PeerPairs* pairs, const std::vector<GpuIdentity>* gpus)
      : pairs_(pairs), gpus_(gpus) {}

  // `physical`: ordinal in the host of the GPU whose memory it is.
  bool Reaches(int gpu, int physical) const {
    return pairs_->Reaches((*gpus_)[static_cast<size_t>(gpu)].physical, physical);
  }
  bool CanAccess(int gpu, int peer) const {
    return Reaches(gpu, (*gpus_)[static_cast<size_t>(peer)].physical);
  }
  CUresult Enable(int gpu, int peer);
  CUresult Disable(int gpu, int peer);

 private:
  const PeerPairs* const pairs_;
  const std::vector<GpuIdentity>* const gpus_;
  std::mutex mutex_;
  std::set<std::pair<int, int>> enabled_;
};

struct Process {
  explicit Process(Options given);

  Options options;
  std::vector<GpuIdentity> gpus;  // GPUs that the program sees
  std::vector<std::unique_ptr<Context>> contexts;
  MemoryMap memory;
  VirtualMemory virtual_memory{&memory, &gpus, options.peers};
  Engine engine;
  MemoryPools pools{&memory, &engine, &gpus};
  KernelTable kernels;
  PeerAccess peers{&options.peers, &gpus};
  HandleTable<Stream> streams;
  HandleTable<Event> events;
  GraphState graphs{&engine};

  // Counts the launch of a kernel. An error: it fails (Options::launch_fault), or the GPU has
  // failed (Options::fault).
  CUresult CountLaunch(int gpu);
};

// The settings of one thread.
struct ThreadState {
  std::vector<int> contexts;  // a stack of GPUs; the last one is current
  std::map<int, std::shared_ptr<Stream>> default_streams;  // per-thread default streams, by GPU
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
ThreadState& CurrentThread();

// Creates the process's state if there is none yet.
CUresult StartProcess();

// Most entry points begin with:
//   CallContext session;
//   if (const CUresult result = session.EnterContext(); result != CUDA_SUCCESS) return result;
struct CallContext {
  Process* process = nullptr;
  int gpu = -1;

  CUresult Enter();         // requires that CUDA is initialized
  CUresult EnterContext();  // also requires a current context, whose GPU has not failed

  // Returns the stream of a handle: 0 and 1 are the legacy default stream of the current GPU, 2 is
  // the thread's own default stream, others were created. Null for an invalid handle.
  std::shared_ptr<Stream> FindStream(CUstream handle) const;
  bool IsGpu(int ordinal) const {
    return ordinal >= 0 && ordinal < static_cast<int>(process->gpus.size());
  }
  CUcontext ContextOf(int ordinal) const;
  // Returns the GPU of a context, or -1.
  int GpuOf(CUcontext context) const;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_PROCESS_H_
