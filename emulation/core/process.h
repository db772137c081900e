// All that the emulation knows in one process, and what each of its threads has chosen.
//
// CUDA's API is one of global functions, so this is the emulation's one process state. It is made
// by cuInit and never taken down: a program may use CUDA until its last instruction, and the
// engine's threads outlive main(). A library constructor makes nothing: every child of a job
// inherits the preload. A forked child of a process that has used CUDA cannot use it, as with the
// real one.
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

// The primary context of one GPU; its address is the CUcontext.
struct Context {
  int gpu = 0;
  std::atomic<int> retained{0};
  std::atomic<unsigned> flags{0};
};

// Which GPU may reach which other one's memory. All can; programs must still ask, once each.
class PeerAccess {
 public:
  CUresult Enable(int gpu, int peer);
  CUresult Disable(int gpu, int peer);

 private:
  std::mutex mutex_;
  std::set<std::pair<int, int>> enabled_;
};

struct Process {
  explicit Process(Options given);

  Options options;
  std::vector<GpuIdentity> gpus;  // those that the program sees
  std::vector<std::unique_ptr<Context>> contexts;
  MemoryMap memory;
  VirtualMemory virtual_memory{&memory, &gpus};
  Engine engine;
  MemoryPools pools{&memory, &engine, &gpus};
  KernelTable kernels;
  PeerAccess peers;
  HandleTable<Stream> streams;
  HandleTable<Event> events;
  GraphState graphs{&engine};
};

// What one thread has chosen.
struct ThreadState {
  std::vector<int> contexts;  // a stack of GPUs; the last one is current
  std::map<int, std::shared_ptr<Stream>> default_streams;  // its own, by GPU
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
ThreadState& CurrentThread();

// Makes the process's state where there is none yet.
CUresult StartProcess();

// What nearly every entry point begins with:
//   Session session;
//   if (const CUresult result = session.EnterContext(); result != CUDA_SUCCESS) return result;
struct Session {
  Process* process = nullptr;
  int gpu = -1;

  CUresult Enter();         // CUDA is initialised
  CUresult EnterContext();  // besides, a context is current

  // The stream for a handle: 0 and 1 are the legacy default stream of the current GPU, 2 is the
  // thread's own, else one that was created. Null where it is none of these.
  std::shared_ptr<Stream> FindStream(CUstream handle) const;
  bool IsGpu(int ordinal) const {
    return ordinal >= 0 && ordinal < static_cast<int>(process->gpus.size());
  }
  CUcontext ContextOf(int ordinal) const;
  // The GPU whose context this is, or -1.
  int GpuOf(CUcontext context) const;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_PROCESS_H_
