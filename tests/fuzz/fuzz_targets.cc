#include "tests/fuzz/fuzz_targets.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace mccs {
namespace {

constexpr int kStreams = 3;

// Exits if a required call fails: without it the run would test nothing.
void Require(bool well, const char* what) {
  if (well) return;
  std::printf("fuzz: %s failed: %s\n", what, ncclGetLastError(nullptr));
  std::exit(1);
}

std::byte* Allocate(size_t bytes) {
  void* memory = nullptr;
  Require(cudaMalloc(&memory, bytes) == cudaSuccess, "cudaMalloc");
  return static_cast<std::byte*>(memory);
}

}  // namespace

FuzzTargets::FuzzTargets(FuzzRun& run) : run_(run) {
  Require(ncclCommInitAll(unused_comms_, 2, nullptr) == ncclSuccess, "ncclCommInitAll");
  for (int device = 0; device < 2; ++device) {
    cudaSetDevice(device);
    unused_comm_data_.push_back(reinterpret_cast<int*>(Allocate(sizeof(int))));
  }
  cudaSetDevice(0);
  for (int i = 0; i < kBuffers; ++i) buffers_.push_back(Allocate(kBufferBytes));
  streams_ = {nullptr, cudaStreamPerThread};
  for (int i = 0; i < kStreams; ++i) {
    Require(cudaStreamCreate(&streams_.emplace_back()) == cudaSuccess, "cudaStreamCreate");
  }
  Recreate();
}

// ---- Arguments -------------------------------------------------------------------------------

int FuzzTargets::AnyInt() {
  switch (Below(6)) {
    case 0:
      return static_cast<int>(AnyBits());
    case 1:
      return -1;
    case 2:
      return static_cast<int>(Below(16));
    default:
      return static_cast<int>(Below(3));
  }
}

size_t FuzzTargets::AnyCount() {
  switch (Below(8)) {
    case 0:
      return AnyBits();
    case 1:
      return ~size_t{0} >> Below(64);
    default:
      return Below(kBufferBytes / 4);
  }
}

void* FuzzTargets::AnyMemory() {
  switch (Below(10)) {
    case 0:
      return nullptr;
    case 1:
      return freed_;
    case 2:
      return &run_;
    case 3:
      return reinterpret_cast<void*>(AnyBits());
    case 4:
      return buffers_[Below(kBuffers)] + Below(2 * kBufferBytes);
    case 5:
      if (!to_free_.empty()) return to_free_[Below(to_free_.size())];
      [[fallthrough]];
    default:
      return buffers_[Below(kBuffers)] + 8 * Below(4);
  }
}

ncclComm_t FuzzTargets::AnyComm() {
  const ncclComm_t victim = comms_[Below(comms_.size())];
  ncclComm_t comm = victim;
  switch (Below(12)) {
    case 0:
      return nullptr;
    case 1:
      comm = reinterpret_cast<ncclComm_t>(AnyBits());
      break;
    case 2:
      comm = reinterpret_cast<ncclComm_t>(reinterpret_cast<uintptr_t>(victim) + Below(256));
      break;
    case 3:
      comm = dead_;
      break;
    case 4:
      if (!derived_comms_.empty()) comm = derived_comms_[Below(derived_comms_.size())].front();
      break;
    default:
      break;
  }
  return IsUnusedComm(comm) ? victim : comm;
}

void* FuzzTargets::AnyRegistration() {
  if (registrations.empty() || OneIn(3)) return reinterpret_cast<void*>(AnyBits());
  return registrations[Below(registrations.size())];
}

// ---- Life cycle ------------------------------------------------------------------------------

bool FuzzTargets::MayBlock(ncclComm_t comm) const {
  const auto has = [&](const std::vector<ncclComm_t>& some) {
    return std::find(some.begin(), some.end(), comm) != some.end();
  };
  return (blocking_ && has(comms_)) ||
         std::any_of(derived_comms_.begin(), derived_comms_.end(), has);
}

bool FuzzTargets::WaitsForPeers(ncclComm_t comm) const {
  int ranks = 0;
  return MayBlock(comm) && ncclCommCount(comm, &ranks) == ncclSuccess && ranks > 1;
}

ncclComm_t* FuzzTargets::NewHandles(size_t count) {
  return derived_comms_.emplace_back(count, nullptr).data();
}

void FuzzTargets::EndGroups() {
  for (; depth_ > 0; --depth_) ncclGroupEnd();
}

void FuzzTargets::EndAll() {
  EndGroups();
  for (const std::vector<ncclComm_t>& made : derived_comms_) {
    for (ncclComm_t comm : made) ncclCommAbort(comm);
  }
  derived_comms_.clear();
  for (ncclComm_t comm : comms_) {
    alone() && !signals_awaited && OneIn(2) ? ncclCommDestroy(comm) : ncclCommAbort(comm);
    dead_ = comm;
  }
  comms_.clear();
  registrations.clear();
  signals_awaited = false;
}

// The calls of two ranks rarely match, and an operation that waits for the other rank would wait
// forever. So such communicators are non-blocking and end by an abort.
void FuzzTargets::Recreate() {
  EndAll();
  // Frees and allocates memory at reused addresses. cudaFree waits for the streams, ncclMemFree
  // does not.
  std::byte*& buffer = buffers_[Below(kBuffers)];
  freed_ = buffer;
  cudaFree(buffer);
  buffer = Allocate(OneIn(2) ? kBufferBytes : 4 * kBufferBytes);
  for (void* memory : to_free_) {
    if (OneIn(2) && memory != nullptr) freed_ = static_cast<std::byte*>(memory);
    ncclMemFree(memory);
  }
  to_free_.clear();
  ncclUniqueId id;
  Require(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  comms_.resize(OneIn(3) ? 2 : 1);
  blocking_ = alone() && OneIn(2);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking_ ? 1 : 0;
  ncclGroupStart();
  for (size_t r = 0; r < comms_.size(); ++r) {
    cudaSetDevice(static_cast<int>(r));
    const ncclResult_t made = ncclCommInitRankConfig(&comms_[r], static_cast<int>(comms_.size()),
                                                     id, static_cast<int>(r), &config);
    Require(made == ncclSuccess || made == ncclInProgress, "ncclCommInitRankConfig");
  }
  cudaSetDevice(0);
  const ncclResult_t ended = ncclGroupEnd();
  Require(ended == ncclSuccess || ended == ncclInProgress, "ncclGroupEnd");
  if (OneIn(8)) return;  // used before it is ready
  for (ncclComm_t comm : comms_) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      Require(ncclCommGetAsyncError(comm, &state) == ncclSuccess, "ncclCommGetAsyncError");
    }
    Require(state == ncclSuccess, "a new communicator");
  }
}

bool FuzzTargets::IsHealthy() {
  Recreate();
  for (cudaStream_t stream : streams_) {
    if (cudaStreamSynchronize(stream) == cudaSuccess) continue;
    std::printf("fuzz: a stream does not finish\n");
    return false;
  }
  return UnusedCommWorks();
}

bool FuzzTargets::UnusedCommWorks() {
  const int before[] = {3, 4};
  int sum[2] = {};
  ncclGroupStart();
  for (int device = 0; device < 2; ++device) {
    cudaSetDevice(device);
    cudaMemcpy(unused_comm_data_[device], &before[device], sizeof(int), cudaMemcpyHostToDevice);
    ncclAllReduce(unused_comm_data_[device], unused_comm_data_[device], 1, ncclInt, ncclSum,
                  unused_comms_[device], nullptr);
  }
  const ncclResult_t result = ncclGroupEnd();
  for (int device = 0; device < 2; ++device) {
    cudaSetDevice(device);
    cudaMemcpy(&sum[device], unused_comm_data_[device], sizeof(int), cudaMemcpyDeviceToHost);
  }
  cudaSetDevice(0);
  if (result == ncclSuccess && sum[0] == 7 && sum[1] == 7) return true;
  std::printf("fuzz: the unused communicator failed: result %d, sums %d and %d, %s\n",
              static_cast<int>(result), sum[0], sum[1], ncclGetLastError(unused_comms_[0]));
  return false;
}

}  // namespace mccs
