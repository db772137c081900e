// A job that repeats an all-reduce and prints one line per event to stdout:
//
//   running             the first all-reduce is complete
//   done <n>            n all-reduces were correct: exit status 0
//   failed <s> <text>   the communicator failed at second s of CLOCK_MONOTONIC: exit status 3
//   rejected <s> <text>  the communicator could not be created: exit status 4
//   wrong <n>           the n-th all-reduce was wrong: exit status 5
//
// It ends after --seconds, on all ranks after the same all-reduce. For tests of errors: --claim
// RANK uses that rank instead of its own, with --stay-out RANK that rank never joins, and with
// --linger SECONDS a rank stays so long after an error.
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "check_calls.h"
#include "rendezvous.h"

namespace {

constexpr size_t kCount = 1 << 16;
constexpr int kFailed = 3;
constexpr int kRejected = 4;
constexpr int kWrong = 5;

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

unsigned g_linger_seconds = 0;

[[noreturn]] void End(int status, const char* what, ncclComm_t comm, ncclResult_t result) {
  std::printf("%s %.6f %s: %s\n", what, Now(), ncclGetErrorString(result), ncclGetLastError(comm));
  std::fflush(stdout);
  sleep(g_linger_seconds);
  _exit(status);  // without destroying the failed communicator
}

struct Options {
  double seconds = 5;
  int claim = -1;
  int stay_out = -1;
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seconds") options.seconds = std::atof(argv[i + 1]);
    if (name == "--claim") options.claim = std::atoi(argv[i + 1]);
    if (name == "--linger") g_linger_seconds = static_cast<unsigned>(std::atoi(argv[i + 1]));
    if (name == "--stay-out") options.stay_out = std::atoi(argv[i + 1]);
  }
  return options;
}

class SteadyJob {
 public:
  SteadyJob(const JobPlace& place, const ncclUniqueId& id, int rank) : place_(place), rank_(rank) {
    CUDA_OK(cudaSetDevice(place.local_rank));
    ncclResult_t result = ncclCommInitRank(&comm_, place.world_size, id, rank);
    if (result != ncclSuccess) End(kRejected, "rejected", nullptr, result);
    CUDA_OK(cudaStreamCreate(&stream_));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&buffer_), kCount * sizeof(float)));
  }

  ~SteadyJob() {
    CUDA_OK(cudaFree(buffer_));
    CUDA_OK(cudaStreamDestroy(stream_));
    NCCL_OK(ncclCommDestroy(comm_));
  }

  // True while all ranks continue: the first element counts the ranks that stop.
  bool AllReduceOnce(bool wants_to_stop) {
    host_.assign(kCount, static_cast<float>(rank_ + 1));
    host_[0] = wants_to_stop ? 1 : 0;
    const size_t bytes = kCount * sizeof(float);
    CUDA_OK(cudaMemcpyAsync(buffer_, host_.data(), bytes, cudaMemcpyHostToDevice, stream_));
    ncclResult_t result =
        ncclAllReduce(buffer_, buffer_, kCount, ncclFloat32, ncclSum, comm_, stream_);
    if (result != ncclSuccess) End(kFailed, "failed", comm_, result);
    // Poll as nccl-tests do: after a failure the stream stays blocked, and so would a copy.
    cudaError_t waited;
    while ((waited = cudaStreamQuery(stream_)) == cudaErrorNotReady) {
      NCCL_OK(ncclCommGetAsyncError(comm_, &result));
      if (result != ncclSuccess) End(kFailed, "failed", comm_, result);
      sched_yield();
    }
    CUDA_OK(waited);
    CUDA_OK(cudaMemcpyAsync(host_.data(), buffer_, bytes, cudaMemcpyDeviceToHost, stream_));
    CUDA_OK(cudaStreamSynchronize(stream_));
    ++operations_;
    CheckSum();
    return host_[0] == 0;
  }

  int operations() const { return operations_; }

 private:
  void CheckSum() const {
    const float expected = static_cast<float>(place_.world_size * (place_.world_size + 1) / 2);
    for (size_t i = 1; i < kCount; ++i) {
      if (host_[i] == expected) continue;
      std::printf("wrong %d\n", operations_);
      std::fflush(stdout);
      _exit(kWrong);
    }
  }

  const JobPlace place_;
  const int rank_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  float* buffer_ = nullptr;
  std::vector<float> host_;
  int operations_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  const JobPlace place = ReadJobPlace();
  const ncclUniqueId id = ExchangeUniqueId(place);
  if (place.rank == options.stay_out) {
    while (true) pause();
  }
  SteadyJob job(place, id, options.claim >= 0 ? options.claim : place.rank);
  const double end = Now() + options.seconds;
  while (job.AllReduceOnce(Now() >= end)) {
    if (job.operations() == 1) std::printf("running\n");
    std::fflush(stdout);
  }
  std::printf("done %d\n", job.operations());
  return 0;
}
