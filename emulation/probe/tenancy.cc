// Several processes on one GPU: time slices, killed processes, and how the GPU is shared.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe_kernels.h"

namespace mccs::probe {
namespace {

constexpr size_t kWords = 512;
// Places in the shared words.
constexpr size_t kRelease = 0;
constexpr size_t kStarted = 1 * kWordStride;
constexpr size_t kBeat = 2 * kWordStride;
constexpr size_t kResults = 3 * kWordStride;

constexpr double kWorkMs = 15;
constexpr int kWorkLimitMs = 15'000;
constexpr uint64_t kWatchedNs = 200'000'000;

// The second process: a kernel that spins until `words[kRelease]` is written, from the byte on.
Outcome SpinOnRequest(Peer& self, uint64_t* words) {
  PROBE_PASSES(RegisterWords(words, kWords));
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(kMark.Launch(stream, {}, words + kStarted, 0));  // loads the kernels
  PROBE_EXPECT(Finishes(stream), "a kernel did not end");
  char go = 0;
  PROBE_EXPECT(self.Receive(&go, 1), "no request to start received");
  PROBE_CALL(kSpin.Launch(stream, {}, words + kRelease, 1, words + kStarted, words + kBeat));
  PROBE_EXPECT(Finishes(stream, 2 * kWorkLimitMs), "the spinning kernel was not released");
  return Pass();
}

// A kernel with a fixed amount of arithmetic.
class TimedWork {
 public:
  // Chooses an amount that takes at least kWorkMs when nothing else runs.
  Outcome Prepare(uint64_t* result) {
    result_ = result;
    PROBE_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (double ms = 0; ms < kWorkMs; steps_ *= 2) PROBE_PASSES(Run(&ms));
    return Pass();
  }
  Outcome Run(double* ms) {
    const Stopwatch stopwatch;
    PROBE_CALL(kWork.Launch(stream_, {}, steps_, result_));
    PROBE_EXPECT(Finishes(stream_, kWorkLimitMs),
                 "the kernel did not proceed while another process's kernel spins");
    *ms = stopwatch.ms();
    return Pass();
  }
  Outcome RunThrice(double* median_ms) {
    std::vector<double> times(3);
    for (double& ms : times) PROBE_PASSES(Run(&ms));
    *median_ms = Median(times);
    return Pass();
  }
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  uint64_t* result_ = nullptr;
  uint64_t steps_ = uint64_t{1} << 14;
};

Outcome StartOther(Peer& peer, const uint64_t* words) {
  const char go = 1;
  PROBE_EXPECT(peer.Send(&go, 1), "the second process does not respond");
  PROBE_EXPECT(WordBecomes(words + kStarted, 1, kWorkLimitMs),
               "the second process's kernel did not start");
  return Pass();
}

PROBE_CHECK(processes_share_gpu,
            "a kernel proceeds, in time slices, while a kernel of another process spins") {
  uint64_t* const words = SharedWords(kWords);
  PROBE_EXPECT(words != nullptr, "cannot create shared words");
  Peer peer([=](Peer& self) { return SpinOnRequest(self, words); });
  PROBE_PASSES(RegisterWords(words, kWords));
  uint64_t* const results = words + kResults;
  TimedWork work;
  PROBE_PASSES(work.Prepare(results));
  double alone = 0;
  double beside = 0;
  PROBE_PASSES(work.RunThrice(&alone));
  PROBE_PASSES(StartOther(peer, words));
  const uint64_t beat = LoadWord(words + kBeat);
  PROBE_PASSES(work.RunThrice(&beside));
  PROBE_CALL(kPauses.Launch(work.stream(), {}, kWatchedNs, results, results + 1, results + 2));
  PROBE_EXPECT(Finishes(work.stream(), kWorkLimitMs), "the kernel that watches the clock stopped");
  PROBE_EXPECT(LoadWord(words + kBeat) != beat, "the spinning kernel did not proceed");
  StoreWord(words + kRelease, 1);
  PROBE_PASSES(peer.Join());
  return Pass(
      Text("%.1f ms alone, %.1f ms beside the other kernel (%.2f times); in %.0f ms the "
           "longest pause is %.2f ms, and %.0f pauses over 0.1 ms are %.1f ms together",
           alone, beside, beside / alone, static_cast<double>(kWatchedNs) / 1e6,
           static_cast<double>(LoadWord(results)) / 1e6, static_cast<double>(LoadWord(results + 1)),
           static_cast<double>(LoadWord(results + 2)) / 1e6));
}

// Returns when the word changed last, in ms since the call, or empty if it has not been constant
// for kQuietMs at the end of the limit.
std::optional<double> LastChange(const uint64_t* word, double limit_ms) {
  constexpr double kQuietMs = 200;
  const Stopwatch stopwatch;
  double changed = 0;
  for (uint64_t seen = LoadWord(word); stopwatch.ms() < limit_ms + kQuietMs;) {
    const uint64_t now = LoadWord(word);
    if (now != seen) changed = stopwatch.ms();
    seen = now;
    if (stopwatch.ms() - changed > kQuietMs) return changed;
    usleep(1000);
  }
  return std::nullopt;
}

PROBE_CHECK(killed_process_leaves_no_kernel,
            "SIGKILL of a process whose kernel spins ends the kernel within a second") {
  constexpr double kLimitMs = 1000;
  uint64_t* const words = SharedWords(kWords);
  PROBE_EXPECT(words != nullptr, "cannot create shared words");
  Peer peer([=](Peer& self) { return SpinOnRequest(self, words); });
  PROBE_PASSES(RegisterWords(words, kWords));
  TimedWork work;
  double alone = 0;
  double after = 0;
  PROBE_PASSES(work.Prepare(words + kResults));
  PROBE_PASSES(work.RunThrice(&alone));
  PROBE_PASSES(StartOther(peer, words));
  const uint64_t beat = LoadWord(words + kBeat);
  PROBE_EXPECT(SpinUntil(words + kBeat, beat + 1), "the second process's kernel does not run");
  const Stopwatch stopwatch;
  peer.Kill();
  const double ended = stopwatch.ms();
  PROBE_PASSES(work.Run(&after));
  const double proceeded = stopwatch.ms();
  const std::optional<double> changed = LastChange(words + kBeat, kLimitMs);
  PROBE_EXPECT(changed.has_value(), "the kernel of the killed process still runs after a second");
  PROBE_EXPECT(proceeded - ended < kLimitMs + alone,
               Text("another process's kernel took %.0f ms after the kill, %.0f ms alone",
                    proceeded - ended, alone));
  return Pass(
      Text("the process ended %.1f ms after the signal; a kernel of %.1f ms then took "
           "%.1f ms",
           ended, alone, after));
}

// ---- Facts
// ---------------------------------------------------------------------------------------

int AttributeOf(CUdevice_attribute attribute) {
  int value = -1;
  return cuDeviceGetAttribute(&value, attribute, 0) == CUDA_SUCCESS ? value : -1;
}

std::string MpsText() {
  const char* directory = getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string control =
      std::string(directory == nullptr ? "/tmp/nvidia-mps" : directory) + "/control";
  const bool present = access(control.c_str(), F_OK) == 0;
  switch (AttributeOf(CU_DEVICE_ATTRIBUTE_MPS_ENABLED)) {
    case 1:
      return "MPS is active: kernels of several processes run at once, and a fault of one process "
             "can end the others";
    case 0:
      return "MPS is not active: processes share the GPU by time slices" +
             std::string(present ? ", although " + control + " exists" : "");
    default:
      return "MPS is unknown; " + control + (present ? " exists" : " does not exist");
  }
}

// NVML's functions, by name: the toolkit of the build has no nvml.h, and the machine may lack it.
std::string MigText() {
  cudaDeviceProp properties{};
  char address[32] = "";
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess ||
      cudaDeviceGetPCIBusId(address, sizeof(address), 0) != cudaSuccess) {
    return "MIG is unknown: CUDA does not name the device";
  }
  if (std::string(properties.name).find("MIG") != std::string::npos) {
    return "MIG is active: this device is a slice of a GPU, without time slices from other slices";
  }
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return "MIG is unknown: there is no libnvidia-ml.so.1";
  auto* const start = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  auto* const find = reinterpret_cast<int (*)(const char*, void**)>(
      dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  auto* const get = reinterpret_cast<int (*)(void*, unsigned*, unsigned*)>(
      dlsym(library, "nvmlDeviceGetMigMode"));
  void* device = nullptr;
  unsigned mode = 0;
  unsigned pending = 0;
  if (start == nullptr || find == nullptr || get == nullptr) {
    return "MIG is unknown: this NVML does not report it";
  }
  if (start() != 0 || find(address, &device) != 0) return "MIG is unknown: NVML has no such device";
  constexpr int kNotSupported = 3;  // NVML_ERROR_NOT_SUPPORTED
  if (const int error = get(device, &mode, &pending); error != 0) {
    return error == kNotSupported ? "MIG is not supported by this GPU"
                                  : Text("MIG is unknown: NVML returned error %d", error);
  }
  return mode == 0 ? "MIG is off" : "MIG is on for this GPU";
}

std::string ModeText() {
  switch (AttributeOf(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)) {
    case CU_COMPUTEMODE_DEFAULT:
      return "compute mode default: several processes may use the GPU";
    case CU_COMPUTEMODE_EXCLUSIVE_PROCESS:
      return "compute mode exclusive: one process at a time, so checks with two processes fail";
    case CU_COMPUTEMODE_PROHIBITED:
      return "compute mode prohibited: no process may use the GPU";
    default:
      return "compute mode unknown";
  }
}

PROBE_CHECK(facts_of_sharing,
            "reports MPS, MIG and the compute mode; cannot fail by their values") {
  PROBE_CALL(cudaFree(nullptr));
  return Pass(MpsText() + "; " + MigText() + "; " + ModeText());
}

PROBE_CHECK(facts_of_device, "reports the GPU, the driver and the attributes of the data path") {
  struct Fact {
    const char* name;
    CUdevice_attribute attribute;
  };
  constexpr Fact kFacts[] = {
      {"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {"copy engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
      {"preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
      {"same pointer for registered memory",
       CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
      {"read-only registration", CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED},
      {"atomics on host memory", CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
      {"64-bit stream words", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
      {"dma-buf", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED},
      {"GPUDirect RDMA", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED},
      {"GPUDirect RDMA of virtual memory",
       CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED},
      {"order of remote writes", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING},
      {"fabric handles", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
      {"multicast", CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED},
  };
  cudaDeviceProp properties{};
  int devices = 0;
  int driver = 0;
  PROBE_CALL(cudaGetDeviceCount(&devices));
  PROBE_CALL(cudaGetDeviceProperties(&properties, 0));
  PROBE_CALL(cuDriverGetVersion(&driver));
  std::string text =
      Text("%d × %s, compute capability %d.%d, driver for CUDA %d.%d", devices, properties.name,
           properties.major, properties.minor, driver / 1000, driver % 1000 / 10);
  for (const Fact& fact : kFacts) {
    text += Text("; %s %d", fact.name, AttributeOf(fact.attribute));
  }
  return Pass(text);
}

}  // namespace
}  // namespace mccs::probe
