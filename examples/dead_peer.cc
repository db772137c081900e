// Shows what a program sees when a peer dies: rank 1 exits silently, and rank 0 calls
// ncclAllReduce.
//
//   dead_peer [--blocked SECONDS] [--end HOW]          two ranks, one process each
//
// Rank 0 prints a line for each of these results, and exits with 0 if all of them hold:
//   async      ncclCommGetAsyncError returns ncclRemoteError; prints the delay and the message of
//              ncclGetLastError
//   blocked    the stream has not completed for SECONDS (5 by default), and the copy after the
//              all-reduce has not read the former sum
//   released   the stream has completed after HOW ended the communicator: abort (the default),
//              destroy, revoke, or thread (ncclCommAbort by another thread while this one is in
//              cudaStreamSynchronize)
// With HOW exit, return, or fork the stream stays blocked, but the process ends: by exit() or
// return from main, with a thread and a static object's destructor in cudaStreamSynchronize; fork:
// a child exits first. With graph the call is in a graph, and with idle rank 0 makes no call.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "check_calls.h"
#include "rendezvous.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kCount = 1024;
constexpr float kUnread = -1;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void Fail(const char* what) {
  std::printf("FAILED: %s\n", what);
  std::fflush(stdout);
  _exit(1);
}

struct Options {
  double blocked_s = 5;
  std::string end = "abort";
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--blocked") options.blocked_s = std::atof(argv[i + 1]);
    if (name == "--end") options.end = argv[i + 1];
  }
  return options;
}

// Waits for a stream when the process ends: in a thread, and in the destructor.
class StreamUser {
 public:
  void Use(cudaStream_t stream) {
    stream_ = stream;
    thread_ = std::thread([stream] { (void)cudaStreamSynchronize(stream); });
  }
  ~StreamUser() {
    if (!thread_.joinable()) return;
    const bool completed = cudaStreamSynchronize(stream_) == cudaSuccess;
    thread_.join();
    if (completed) Fail("a blocked stream completed at the end of the process");
    std::printf("ended: the destructor of a static object ran\n");
    std::fflush(stdout);
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::thread thread_;
};
StreamUser at_the_end;

class Rank {
 public:
  explicit Rank(const JobPlace& place) {
    const ncclUniqueId id = ExchangeUniqueId(place);
    CUDA_OK(cudaSetDevice(place.local_rank));
    NCCL_OK(ncclCommInitRank(&comm_, place.world_size, id, place.rank));
    CUDA_OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&data_), kCount * sizeof(float)));
    CUDA_OK(cudaMallocHost(reinterpret_cast<void**>(&result_), kCount * sizeof(float)));
    CUDA_OK(cudaMemset(data_, 0, kCount * sizeof(float)));
    // Both ranks take part in the first call.
    NCCL_OK(ncclAllReduce(data_, data_, kCount, ncclFloat32, ncclSum, comm_, stream_));
    CUDA_OK(cudaStreamSynchronize(stream_));
  }

  void Capture() {
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    NCCL_OK(ncclAllReduce(data_, data_, kCount, ncclFloat32, ncclSum, comm_, stream_));
    CUDA_OK(cudaStreamEndCapture(stream_, &graph));
    CUDA_OK(cudaGraphInstantiate(&graph_, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
  }

  void Call() {
    result_[0] = kUnread;
    if (graph_ != nullptr) {
      CUDA_OK(cudaGraphLaunch(graph_, stream_));
    } else {
      NCCL_OK(ncclAllReduce(data_, data_, kCount, ncclFloat32, ncclSum, comm_, stream_));
    }
    CUDA_OK(
        cudaMemcpyAsync(result_, data_, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream_));
  }

  void AwaitError() {
    const Clock::time_point start = Clock::now();
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess && SecondsSince(start) < 10) {
      NCCL_OK(ncclCommGetAsyncError(comm_, &error));
    }
    std::printf("async: %s after %.3f s: %s\n", ncclGetErrorString(error), SecondsSince(start),
                ncclGetLastError(nullptr));
    if (error != ncclRemoteError) Fail("the async error is not ncclRemoteError");
    if (SecondsSince(start) > 1) Fail("the async error took more than a second");
    if (std::string(ncclGetLastError(nullptr)).find("rank 1") == std::string::npos) {
      Fail("ncclGetLastError(NULL) does not name rank 1");
    }
  }

  void StayBlocked(double seconds) {
    const Clock::time_point start = Clock::now();
    while (SecondsSince(start) < seconds) {
      if (cudaStreamQuery(stream_) != cudaErrorNotReady) Fail("the stream has completed");
      if (result_[0] != kUnread) Fail("the copy after the all-reduce read the former sum");
      usleep(1000);
    }
    std::printf("blocked: for %.1f s\n", seconds);
  }

  void End(const std::string& how) {
    if (how == "destroy") {
      // It destroys the communicator, and reports the incomplete call.
      if (ncclCommDestroy(comm_) != ncclRemoteError)
        Fail("ncclCommDestroy did not report the failure");
    } else if (how == "revoke") {
      NCCL_OK(ncclCommRevoke(comm_, 0));
    } else if (how == "thread") {
      std::thread other([this] {
        usleep(100'000);
        NCCL_OK(ncclCommAbort(comm_));
      });
      CUDA_OK(cudaStreamSynchronize(stream_));
      other.join();
    } else {
      NCCL_OK(ncclCommAbort(comm_));
    }
    CUDA_OK(cudaStreamSynchronize(stream_));
    std::printf("released: by %s\n", how.c_str());
  }

  cudaStream_t stream() const { return stream_; }

 private:
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  float* data_ = nullptr;
  float* result_ = nullptr;
};

void ForkExitingChild() {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) Fail("the child did not exit");
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // the test reads each line at once
  const Options options = Parse(argc, argv);
  const JobPlace place = ReadJobPlace();
  Rank rank(place);
  if (options.end == "graph") rank.Capture();
  if (place.rank != 0) _exit(0);
  usleep(100'000);  // rank 1 has exited

  if (options.end == "idle") {
    rank.AwaitError();
    return 0;
  }
  rank.Call();
  rank.AwaitError();
  rank.StayBlocked(options.blocked_s);
  if (options.end == "fork") {
    ForkExitingChild();
    rank.StayBlocked(0.5);
  }
  if (options.end == "exit" || options.end == "return" || options.end == "fork") {
    at_the_end.Use(rank.stream());
    if (options.end == "exit") std::exit(0);
    return 0;
  }
  rank.End(options.end);
  return 0;
}
