// A job that all-reduces until it is told to stop, and says on stdout, a line each, what happens to
// it:
//
//   running             the first all-reduce is done
//   done <n>            n all-reduces were right: exit status 0
//   failed <s> <text>   the communicator failed, seen at that second of CLOCK_MONOTONIC: 3
//   refused <s> <text>  the communicator could not be made: 4
//   wrong <n>           the n-th all-reduce was: 5
//
// It ends after --seconds (all ranks after the same all-reduce). It makes the mistakes that it is
// asked for: --claim RANK takes that rank instead of its own, --stay-out RANK lets that rank never
// join.
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
constexpr int kRefused = 4;
constexpr int kWrong = 5;

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

[[noreturn]] void End(int status, const char* what, ncclComm_t comm, ncclResult_t result) {
  std::printf("%s %.6f %s: %s\n", what, Now(), ncclGetErrorString(result), ncclGetLastError(comm));
  std::fflush(stdout);
  _exit(status);  // a communicator that failed is not destroyed
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
    if (name == "--stay-out") options.stay_out = std::atoi(argv[i + 1]);
  }
  return options;
}

class SteadyJob {
 public:
  SteadyJob(const JobPlace& place, const ncclUniqueId& id, int rank) : place_(place), rank_(rank) {
    CUDA_OK(cudaSetDevice(place.local_rank));
    ncclResult_t result = ncclCommInitRank(&comm_, place.world_size, id, rank);
    if (result != ncclSuccess) End(kRefused, "refused", nullptr, result);
    CUDA_OK(cudaStreamCreate(&stream_));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&buffer_), kCount * sizeof(float)));
  }

  ~SteadyJob() {
    CUDA_OK(cudaFree(buffer_));
    CUDA_OK(cudaStreamDestroy(stream_));
    NCCL_OK(ncclCommDestroy(comm_));
  }

  // True while all ranks want to go on: the first element counts those that do not.
  bool AllReduceOnce(bool wants_to_stop) {
    host_.assign(kCount, static_cast<float>(rank_ + 1));
    host_[0] = wants_to_stop ? 1 : 0;
    const size_t bytes = kCount * sizeof(float);
    CUDA_OK(cudaMemcpyAsync(buffer_, host_.data(), bytes, cudaMemcpyHostToDevice, stream_));
    ncclResult_t result =
        ncclAllReduce(buffer_, buffer_, kCount, ncclFloat32, ncclSum, comm_, stream_);
    if (result != ncclSuccess) End(kFailed, "failed", comm_, result);
    // As nccl-tests wait: the stream of a call that failed stays blocked, and so would a copy.
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
