#include "emulation/core/process.h"

#include <pthread.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

namespace mccs::emulation {
namespace {

std::atomic<Process*> g_process{nullptr};  // never deleted; see process.h
std::atomic<bool> g_forked{false};         // a child whose parent had used CUDA
std::mutex g_start;                        // guards the creation only

void AfterForkInChild() { g_forked.store(true); }

// Ends the engine as a driver ends at process exit, when it kills running kernels: work behind a
// waiting stream does not run, and no thread waits for it any more. Static objects that were
// constructed before CUDA was initialized are destroyed after this, the others before.
void EndEngine() {
  if (!g_forked.load()) g_process.load(std::memory_order_acquire)->engine.OnProcessExit();
}

}  // namespace

Process::Process(Options given)
    : options(std::move(given)),
      gpus(VisibleGpus(options)),
      memory(static_cast<int>(gpus.size()), options.memory_bytes),
      engine(static_cast<int>(gpus.size()), options.connections),
      kernels(options.kernels) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    contexts.push_back(std::make_unique<Context>());
    contexts.back()->gpu = static_cast<int>(i);
  }
}

CUresult Process::CountLaunch(int gpu) {
  if (!options.fault.has_value() && !options.launch_fault.has_value()) return CUDA_SUCCESS;
  Context& context = *contexts[static_cast<size_t>(gpu)];
  const int before = context.launches.fetch_add(1);
  const std::optional<GpuFault>& fault = options.fault;
  if (fault.has_value() && fault->device == gpu && before >= fault->launches)
    context.failure.store(static_cast<CUresult>(fault->error));
  const std::optional<GpuFault>& once = options.launch_fault;
  if (once.has_value() && once->device == gpu && before == once->launches)
    return static_cast<CUresult>(once->error);
  return context.failure.load();
}

CUresult PeerAccess::Enable(int gpu, int peer) {
  if (gpu == peer) return CUDA_ERROR_INVALID_DEVICE;
  if (!CanAccess(gpu, peer)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  std::lock_guard lock(mutex_);
  const bool added = enabled_.emplace(gpu, peer).second;
  return added ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult PeerAccess::Disable(int gpu, int peer) {
  std::lock_guard lock(mutex_);
  const bool removed = enabled_.erase({gpu, peer}) > 0;
  return removed ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

// Destroyed by a key and not by a thread-local variable, because the destructors of a program's
// thread-local variables may use CUDA, and run before those of keys. The main thread's state is
// never destroyed: static destructors may use CUDA, too.
ThreadState& CurrentThread() {
  thread_local ThreadState* state = nullptr;
  static const std::optional<pthread_key_t> key = []() -> std::optional<pthread_key_t> {
    pthread_key_t made;
    const auto destroy = [](void* ended) {
      delete static_cast<ThreadState*>(ended);
      state = nullptr;
    };
    if (pthread_key_create(&made, destroy) != 0) return std::nullopt;  // The states leak.
    return made;
  }();
  if (state == nullptr) {
    state = new ThreadState;
    if (key) pthread_setspecific(*key, state);
  }
  return *state;
}

CUresult StartProcess() {
  if (g_forked.load()) return CUDA_ERROR_NOT_INITIALIZED;
  // Acquire: pairs with the release below, so that readers see a complete process.
  Process* process = g_process.load(std::memory_order_acquire);
  if (process == nullptr) {
    std::lock_guard lock(g_start);
    process = g_process.load(std::memory_order_relaxed);
    if (process == nullptr) {
      std::optional<Options> options = ReadOptions();
      if (!options) return CUDA_ERROR_INVALID_VALUE;
      process = new Process(std::move(*options));
      pthread_atfork(nullptr, nullptr, AfterForkInChild);
      g_process.store(process, std::memory_order_release);
      static_cast<void>(std::atexit(EndEngine));
    }
  }
  return process->gpus.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult CallContext::Enter() {
  // Acquire: pairs with the release in StartProcess.
  process = g_process.load(std::memory_order_acquire);
  if (process == nullptr || g_forked.load(std::memory_order_relaxed)) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  return CUDA_SUCCESS;
}

CUresult CallContext::EnterContext() {
  if (const CUresult result = Enter(); result != CUDA_SUCCESS) return result;
  const ThreadState& thread = CurrentThread();
  if (thread.contexts.empty() || thread.contexts.back() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  gpu = thread.contexts.back();
  return process->contexts[static_cast<size_t>(gpu)]->failure.load(std::memory_order_relaxed);
}

std::shared_ptr<Stream> CallContext::FindStream(CUstream handle) const {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return process->engine.legacy_stream(gpu);
  if (handle != CU_STREAM_PER_THREAD) return process->streams.Find(handle);
  std::shared_ptr<Stream>& own = CurrentThread().default_streams[gpu];
  if (own == nullptr) {
    own = process->engine.CreateStream({.gpu = gpu, .kind = StreamKind::kPerThread});
  }
  return own;
}

CUcontext CallContext::ContextOf(int ordinal) const {
  return reinterpret_cast<CUcontext>(process->contexts[static_cast<size_t>(ordinal)].get());
}

int CallContext::GpuOf(CUcontext context) const {
  for (const std::unique_ptr<Context>& candidate : process->contexts) {
    if (reinterpret_cast<CUcontext>(candidate.get()) == context) return candidate->gpu;
  }
  return -1;
}

}  // namespace mccs::emulation
