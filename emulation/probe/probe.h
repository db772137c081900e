// MCCS's assumptions about CUDA, as named checks of an ordinary CUDA program.
//
// The same binary runs on the emulation and on a GPU: it includes only CUDA's headers and loads the
// libcudart.so.13 and libcuda.so.1 of the machine. Each check runs in a new process that has not
// used CUDA, with a time limit, so that a wrong assumption cannot block the other checks.
#ifndef MCCS_EMULATION_PROBE_PROBE_H_
#define MCCS_EMULATION_PROBE_PROBE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace mccs::probe {

enum class Verdict { kPass, kFail, kSkip };

// `text`: why a check failed or was skipped, or the figures that it measured.
struct Outcome {
  Verdict verdict = Verdict::kPass;
  std::string text;
};
inline Outcome Pass(std::string figures = {}) { return {Verdict::kPass, std::move(figures)}; }
inline Outcome Fail(std::string why) { return {Verdict::kFail, std::move(why)}; }
inline Outcome Skip(std::string why) { return {Verdict::kSkip, std::move(why)}; }

struct Check {
  const char* name;
  const char* assumption;  // one line, for --list
  Outcome (*run)();
};
// All checks of the program. THREAD: the main thread's.
std::vector<Check>& AllChecks();
// Sorts the checks by what depends on them, the most important first (order.cc). Returns the names
// in its list that are no check's.
std::vector<std::string> SortByImportance(std::vector<Check>* checks);
struct CheckRegistration {
  explicit CheckRegistration(const Check& check) { AllChecks().push_back(check); }
};

// Defines a check, as a function that returns its outcome.
#define PROBE_CHECK(name, assumption)                                                   \
  ::mccs::probe::Outcome name();                                                        \
  const ::mccs::probe::CheckRegistration registered_##name({#name, assumption, &name}); \
  ::mccs::probe::Outcome name()

// The error message of a failed call, or empty.
std::optional<std::string> Problem(const char* call, cudaError_t error);
std::optional<std::string> Problem(const char* call, CUresult result);

// Return from the check as failed if a CUDA call fails, or a condition does not hold.
#define PROBE_CALL(call)                                              \
  do {                                                                \
    if (const auto problem = ::mccs::probe::Problem(#call, (call))) { \
      return ::mccs::probe::Fail(*problem);                           \
    }                                                                 \
  } while (false)
#define PROBE_EXPECT(condition, why)                   \
  do {                                                 \
    if (!(condition)) return ::mccs::probe::Fail(why); \
  } while (false)

// Returns from the check if the outcome is not a pass.
#define PROBE_PASSES(outcome)                                                                     \
  do {                                                                                            \
    if (::mccs::probe::Outcome part = (outcome); part.verdict != ::mccs::probe::Verdict::kPass) { \
      return part;                                                                                \
    }                                                                                             \
  } while (false)

// Declare and create resources, or return from the check as failed. LIFETIME: the process.
#define PROBE_STREAM(name, flags) \
  cudaStream_t name = nullptr;    \
  PROBE_CALL(cudaStreamCreateWithFlags(&name, flags))
#define PROBE_EVENT(name)     \
  cudaEvent_t name = nullptr; \
  PROBE_CALL(cudaEventCreate(&name))
#define PROBE_WORDS(name, count)                            \
  uint64_t* const name = ::mccs::probe::PinnedWords(count); \
  PROBE_EXPECT(name != nullptr, "cannot allocate pinned memory")
#define PROBE_DEVICE_MEMORY(name, bytes) \
  void* name = nullptr;                  \
  PROBE_CALL(cudaMalloc(&name, bytes))
#define PROBE_PINNED_MEMORY(name, bytes) \
  void* name = nullptr;                  \
  PROBE_CALL(cudaHostAlloc(&name, bytes, cudaHostAllocDefault))

inline constexpr unsigned kGeq = CU_STREAM_WAIT_VALUE_GEQ;

// The number of hardware queues that the streams of this GPU share, according to the environment:
// CUDA_DEVICE_MAX_CONNECTIONS (8 if unset), which MCCS_EMULATED_CONNECTIONS overrides on the
// emulation.
int Connections();

// Whether libcuda.so.1 is the emulation's. Does not initialize CUDA.
bool OnEmulation();
// Why a check that needs several kernels of one process at the same time is skipped there.
inline constexpr char kOneKernelAtATime[] =
    "the emulation runs one kernel of a process at a time, to its end";

// Polls cudaStreamQuery; returns whether the stream's work finishes within the limit.
bool Finishes(cudaStream_t stream, int limit_ms = 5000);
// Returns whether the work does not finish in a time that is long enough for a GPU.
bool StaysBusy(cudaStream_t stream);

// Allocates words in pinned memory with the same address on the GPU. Null if a call fails.
// LIFETIME: the process.
uint64_t* PinnedWords(size_t count);
constexpr size_t kWordStride = 8;  // of words in cache lines of their own
uint64_t LoadWord(const uint64_t* word);
void StoreWord(uint64_t* word, uint64_t value);
bool WordBecomes(const uint64_t* word, uint64_t value, int limit_ms = 5000);
// Starts a thread that stores the value after that time.
std::thread StoreLater(uint64_t* word, uint64_t value, int after_ms);
// Polls without sleeping until the word has reached the value (GEQ). For latencies.
bool SpinUntil(const uint64_t* word, uint64_t value, int limit_ms = 5000);

// Words on pages of a memfd, as the daemon makes them. Processes that are forked afterwards share
// them at the same address. CUDA does not know them. Null if the system rejects.
// LIFETIME: the process.
uint64_t* SharedWords(size_t count);
// Registers them with CUDA in this process, which creates its context on GPU `device`, and checks
// that the GPU has the same address for them.
Outcome RegisterWords(uint64_t* words, size_t count, int device = 0);

inline CUdeviceptr Pointer(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

// A second process, started before either has used CUDA. It runs `body` with one end of a socket
// pair. REQUIRES: no CUDA call so far.
class Peer {
 public:
  explicit Peer(const std::function<Outcome(Peer& self)>& body);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();  // kills it if it was not joined

  bool Send(const void* data, size_t bytes);
  bool Receive(void* data, size_t bytes);
  int socket() const { return socket_; }
  // Waits for the peer's end and returns its outcome.
  Outcome Join();
  // Sends SIGKILL and waits for its end.
  void Kill();

 private:
  explicit Peer(int socket) : socket_(socket) {}
  int socket_ = -1;
  int pid_ = -1;
};

}  // namespace mccs::probe

#endif  // MCCS_EMULATION_PROBE_PROBE_H_
