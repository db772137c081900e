// Calls that open, allocate and load while a kernel of the process spins on a word that only later
// host code writes. A call that waits for the kernel would block an operation's buffers from being
// opened while another operation runs.

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe_kernels.h"
#include "emulation/probe/shared_memory.h"

namespace mccs::probe {
namespace {

constexpr int kGuardMs = 3000;        // a call that takes longer waits for the kernel
constexpr int kReportGuardMs = 1000;  // the same where waiting is no failure
constexpr size_t kBufferBytes = 1 << 20;

// A kernel that spins until it is released. REQUIRES: a stream of its own.
class SpinningKernel {
 public:
  Outcome Start() {
    words_ = PinnedWords(3 * kWordStride);
    PROBE_EXPECT(words_ != nullptr, "cannot allocate pinned memory");
    PROBE_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    PROBE_CALL(
        kSpin.Launch(stream_, {}, words_, 1, words_ + kWordStride, words_ + 2 * kWordStride));
    PROBE_EXPECT(WordBecomes(words_ + kWordStride, 1), "the spinning kernel did not start");
    return Pass();
  }
  void Release() { StoreWord(words_, 1); }
  Outcome End() {
    Release();
    PROBE_EXPECT(Finishes(stream_), "the spinning kernel did not end");
    return Pass();
  }

 private:
  uint64_t* words_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

using Call = std::function<Outcome()>;

// Runs the call beside a spinning kernel. `*waited`: it returned only after a second thread had
// released the kernel, `guard_ms` after its start.
Outcome RunBeside(const Call& call, int guard_ms, bool* waited, double* ms) {
  SpinningKernel kernel;
  PROBE_PASSES(kernel.Start());
  std::atomic<bool> returned{false};
  std::atomic<bool> released{false};
  std::thread guard([&] {
    for (const Stopwatch stopwatch; !returned.load();) {
      if (stopwatch.ms() > guard_ms) {
        released.store(true);
        kernel.Release();
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const Stopwatch stopwatch;
  const Outcome outcome = call();
  *ms = stopwatch.ms();
  *waited = released.load();
  returned.store(true);
  guard.join();
  PROBE_PASSES(kernel.End());
  return outcome;
}

struct NamedCall {
  const char* name;
  Call call;
};

// Fails if one of the calls waits for the kernel.
Outcome NoneWaits(const std::vector<NamedCall>& calls) {
  std::string text;
  for (const NamedCall& named : calls) {
    bool waited = false;
    double ms = 0;
    PROBE_PASSES(RunBeside(named.call, kGuardMs, &waited, &ms));
    PROBE_EXPECT(!waited, std::string(named.name) + " waited for a running kernel");
    text += Text("%s%s %.2f ms", text.empty() ? "" : "; ", named.name, ms);
  }
  return Pass(text);
}

// Reports which of the calls wait.
Outcome ReportWaits(const std::vector<NamedCall>& calls) {
  std::string text;
  for (const NamedCall& named : calls) {
    bool waited = false;
    double ms = 0;
    PROBE_PASSES(RunBeside(named.call, kReportGuardMs, &waited, &ms));
    text += Text("%s%s ", text.empty() ? "" : "; ", named.name) +
            (waited ? "waits for the kernel" : Text("%.2f ms", ms));
  }
  return Pass(text);
}

// A call of the driver's API as a Call.
Call Driver(const char* name, std::function<CUresult()> function) {
  return [name, function = std::move(function)]() -> Outcome {
    const auto problem = Problem(name, function());
    return problem ? Fail(*problem) : Pass();
  };
}
NamedCall DriverCall(const char* name, std::function<CUresult()> function) {
  return {name, Driver(name, std::move(function))};
}

// Opens memory of a second process by one method. Reports whether closing it waits.
Outcome OpenBesideKernel(SharingMethod method, const char* open, const char* close) {
  Peer owner([method](Peer& self) {
    PROBE_CALL(cudaSetDevice(0));
    PROBE_CALL(cudaFree(nullptr));
    SharedAllocation memory;
    char done = 0;
    PROBE_PASSES(memory.Make(method, kBufferBytes));
    PROBE_PASSES(memory.Send(self));
    PROBE_EXPECT(self.Receive(&done, 1), "the first process ended early");
    return Pass();
  });
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaFree(nullptr));
  SharedDescription description;
  CUdeviceptr address = 0;
  PROBE_PASSES(ReceiveShared(owner, method, &description));
  const Outcome opened =
      NoneWaits({{open, [&] { return OpenDescription(description, method, 0, &address); }}});
  PROBE_PASSES(opened);
  const Outcome closed =
      ReportWaits({{close, [&] { return CloseShared(description, method, address); }}});
  PROBE_PASSES(closed);
  const char done = 1;
  PROBE_EXPECT(owner.Send(&done, 1), "the second process does not respond");
  PROBE_PASSES(owner.Join());
  return Pass(opened.text + "; " + closed.text);
}

PROBE_CHECK(ipc_open_beside_kernel, "cuIpcOpenMemHandle does not wait for a running kernel") {
  return OpenBesideKernel(SharingMethod::kIpc, "cuIpcOpenMemHandle", "cuIpcCloseMemHandle");
}

PROBE_CHECK(vmm_import_beside_kernel,
            "importing, mapping and setting access do not wait for a running kernel") {
  return OpenBesideKernel(SharingMethod::kDescriptor, "import, cuMemMap and cuMemSetAccess",
                          "cuMemUnmap");
}

PROBE_CHECK(allocate_beside_kernel, "cuMemAlloc and cuMemCreate do not wait for a running kernel") {
  PROBE_CALL(cudaFree(nullptr));
  CUdeviceptr small = 0;
  CUdeviceptr large = 0;
  SharedAllocation mapped;
  return NoneWaits({
      DriverCall("cuMemAlloc of 1 MiB", [&] { return cuMemAlloc(&small, kBufferBytes); }),
      DriverCall("cuMemAlloc of 256 MiB", [&] { return cuMemAlloc(&large, kBufferBytes << 8); }),
      {"cuMemCreate and cuMemMap",
       [&] { return mapped.Make(SharingMethod::kDescriptor, kBufferBytes); }},
  });
}

PROBE_CHECK(host_register_beside_kernel, "cuMemHostRegister does not wait for a running kernel") {
  uint64_t* const words = SharedWords(kBufferBytes / sizeof(uint64_t));
  PROBE_EXPECT(words != nullptr, "cannot create shared words");
  PROBE_CALL(cudaFree(nullptr));
  return NoneWaits({DriverCall("cuMemHostRegister of 1 MiB", [&] {
    return cuMemHostRegister(words, kBufferBytes, CU_MEMHOSTREGISTER_DEVICEMAP);
  })});
}

PROBE_CHECK(load_beside_kernel,
            "loading a module or a library does not wait for a running kernel") {
  PROBE_CALL(cudaFree(nullptr));
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  return NoneWaits({
      DriverCall("cuModuleLoadData",
                 [&] { return cuModuleLoadData(&module, mccs_probe_kernels_image); }),
      DriverCall("cuModuleGetFunction",
                 [&] { return cuModuleGetFunction(&function, module, kMark.name()); }),
      DriverCall("cuFuncLoad", [&] { return cuFuncLoad(function); }),
      DriverCall("cuLibraryLoadData",
                 [&] {
                   return cuLibraryLoadData(&library, mccs_probe_kernels_image, nullptr, nullptr, 0,
                                            nullptr, nullptr, 0);
                 }),
      DriverCall("cuLibraryGetKernel",
                 [&] { return cuLibraryGetKernel(&kernel, library, kMark.name()); }),
      DriverCall("cuKernelGetFunction", [&] { return cuKernelGetFunction(&function, kernel); }),
  });
}

// Lazy loading may put off the load to the first launch.
PROBE_CHECK(first_launch_beside_kernel,
            "the first launch of a kernel does not wait for a running one, and runs beside it") {
  if (OnEmulation()) return Skip(kOneKernelAtATime);
  PROBE_WORDS(word, kWordStride);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  return NoneWaits({{"first launch and its end", [&]() -> Outcome {
                       PROBE_CALL(kMark.Launch(stream, {}, word, 1));
                       PROBE_EXPECT(WordBecomes(word, 1), "the second kernel did not run");
                       return Pass();
                     }}});
}

PROBE_CHECK(create_beside_kernel,
            "creating streams, events and pinned memory: reports which calls wait for a kernel") {
  PROBE_CALL(cudaFree(nullptr));
  CUstream stream = nullptr;
  CUevent event = nullptr;
  void* pinned = nullptr;
  CUdeviceptr pooled = 0;
  PROBE_STREAM(other, cudaStreamNonBlocking);
  return ReportWaits({
      DriverCall("cuStreamCreate", [&] { return cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING); }),
      DriverCall("cuEventCreate", [&] { return cuEventCreate(&event, CU_EVENT_DISABLE_TIMING); }),
      DriverCall("cuMemHostAlloc",
                 [&] { return cuMemHostAlloc(&pinned, kBufferBytes, CU_MEMHOSTALLOC_DEVICEMAP); }),
      DriverCall("cuMemAllocAsync", [&] { return cuMemAllocAsync(&pooled, kBufferBytes, other); }),
  });
}

PROBE_CHECK(release_beside_kernel,
            "cuMemFree is expected to wait for running kernels; reports it, and other releases") {
  constexpr size_t kCount = kBufferBytes / sizeof(uint64_t);
  uint64_t* const words = SharedWords(kCount);
  PROBE_EXPECT(words != nullptr, "cannot create shared words");
  PROBE_PASSES(RegisterWords(words, kCount));
  PROBE_DEVICE_MEMORY(device, kBufferBytes);
  PROBE_PINNED_MEMORY(pinned, kBufferBytes);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  SharedAllocation mapped;
  CUmodule module = nullptr;
  PROBE_PASSES(mapped.Make(SharingMethod::kDescriptor, kBufferBytes));
  PROBE_CALL(cuModuleLoadData(&module, mccs_probe_kernels_image));
  return ReportWaits({
      DriverCall("cuMemFree", [&] { return cuMemFree(Pointer(device)); }),
      DriverCall("cuMemFreeHost", [&] { return cuMemFreeHost(pinned); }),
      DriverCall("cuMemHostUnregister", [&] { return cuMemHostUnregister(words); }),
      DriverCall("cuMemUnmap", [&] { return cuMemUnmap(mapped.address(), mapped.bytes()); }),
      DriverCall("cuStreamDestroy", [&] { return cuStreamDestroy(stream); }),
      DriverCall("cuModuleUnload", [&] { return cuModuleUnload(module); }),
  });
}

}  // namespace
}  // namespace mccs::probe
