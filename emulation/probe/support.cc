#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLongEnoughForGpu{30};
constexpr std::chrono::microseconds kBetweenLooks{50};
constexpr int kGpuConnections = 8;
constexpr int kLooksPerYield = 200;

template <typename Condition>
bool Becomes(Condition condition, std::chrono::milliseconds limit) {
  const Clock::time_point until = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return true;
}

int NumberFrom(const char* variable, int otherwise) {
  const char* text = getenv(variable);
  const int number = text == nullptr ? 0 : atoi(text);
  return number > 0 ? number : otherwise;
}

bool IsDone(cudaStream_t stream) {
  const cudaError_t error = cudaStreamQuery(stream);
  static_cast<void>(cudaGetLastError());
  return error == cudaSuccess;
}

}  // namespace

std::vector<Check>& AllChecks() {
  static std::vector<Check> checks;
  return checks;
}

std::optional<std::string> Problem(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return std::nullopt;
  return std::string(call) + " returned " + cudaGetErrorName(error);
}

std::optional<std::string> Problem(const char* call, CUresult result) {
  if (result == CUDA_SUCCESS) return std::nullopt;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  return std::string(call) + " returned " + (name == nullptr ? "an unknown error" : name);
}

int Connections() {
  const int connections = NumberFrom("CUDA_DEVICE_MAX_CONNECTIONS", kGpuConnections);
  return OnEmulation() ? NumberFrom("MCCS_EMULATED_CONNECTIONS", connections) : connections;
}

bool OnEmulation() { return dlsym(RTLD_DEFAULT, "mccsEmulationRegisterKernel") != nullptr; }

bool Finishes(cudaStream_t stream, int limit_ms) {
  return Becomes([=] { return IsDone(stream); }, std::chrono::milliseconds(limit_ms));
}

bool StaysBusy(cudaStream_t stream) {
  return !Becomes([=] { return IsDone(stream); }, kLongEnoughForGpu);
}

uint64_t* PinnedWords(size_t count) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, count * sizeof(uint64_t), cudaHostAllocMapped) != cudaSuccess) {
    return nullptr;
  }
  memset(memory, 0, count * sizeof(uint64_t));
  return static_cast<uint64_t*>(memory);
}

uint64_t LoadWord(const uint64_t* word) {
  // Acquire: pairs with the GPU's write after its memory barrier.
  return std::atomic_ref(*const_cast<uint64_t*>(word)).load(std::memory_order_acquire);
}

void StoreWord(uint64_t* word, uint64_t value) {
  // Release: pairs with the GPU's wait.
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

bool WordBecomes(const uint64_t* word, uint64_t value, int limit_ms) {
  return Becomes([=] { return LoadWord(word) == value; }, std::chrono::milliseconds(limit_ms));
}

bool SpinUntil(const uint64_t* word, uint64_t value, int limit_ms) {
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(limit_ms);
  for (;;) {
    for (int i = 0; i < kLooksPerYield; ++i) {
      if (static_cast<int64_t>(LoadWord(word) - value) >= 0) return true;
    }
    if (Clock::now() > until) return false;
    sched_yield();  // on the emulation the kernel may need this processor
  }
}

uint64_t* SharedWords(size_t count) {
  const size_t bytes = count * sizeof(uint64_t);
  const int fd = memfd_create("probe-words", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return nullptr;
  }
  void* words = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return words == MAP_FAILED ? nullptr : static_cast<uint64_t*>(words);
}

Outcome RegisterWords(uint64_t* words, size_t count, int device) {
  PROBE_CALL(cudaSetDevice(device));
  PROBE_CALL(cudaFree(nullptr));
  PROBE_CALL(cuMemHostRegister(words, count * sizeof(uint64_t), CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr address = 0;
  PROBE_CALL(cuMemHostGetDevicePointer(&address, words, 0));
  PROBE_EXPECT(address == Pointer(words), "the GPU has another address for the shared words");
  return Pass();
}

std::thread StoreLater(uint64_t* word, uint64_t value, int after_ms) {
  return std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
    StoreWord(word, value);
  });
}

Peer::Peer(const std::function<Outcome(Peer&)>& body) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[0]);
    Outcome outcome;
    {
      Peer self(ends[1]);
      outcome = body(self);
      self.Send(outcome.text.c_str(), outcome.text.size());
    }
    _exit(static_cast<int>(outcome.verdict));
  }
  close(ends[1]);
  socket_ = ends[0];
}

Peer::~Peer() {
  if (socket_ >= 0) close(socket_);
  if (pid_ > 0) Kill();
}

void Peer::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool Peer::Send(const void* data, size_t bytes) {
  return send(socket_, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

bool Peer::Receive(void* data, size_t bytes) {
  return recv(socket_, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

Outcome Peer::Join() {
  if (pid_ <= 0) return Fail("cannot start the second process");
  std::string text;
  char part[256];
  for (ssize_t got; (got = recv(socket_, part, sizeof(part), 0)) > 0;) {
    text.append(part, static_cast<size_t>(got));
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(Verdict::kPass))
    return Pass(text);
  if (WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(Verdict::kSkip))
    return Skip(text);
  return Fail("the second process: " + (text.empty() ? "ended abnormally" : text));
}

}  // namespace mccs::probe
