// One process that drives several GPUs from one thread. The first process of each host does so with
// all GPUs that it sees, alone or together with those of the other hosts.
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace one_process_tests {

constexpr size_t kCount = 10'007;

// One GPU of the process: its communicator, rank and resources.
struct Gpu {
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int32_t* send = nullptr;
  int32_t* receive = nullptr;
};

// All GPUs that the process sees.
class Gpus {
 public:
  explicit Gpus(Test& test) : test_(test), gpus_(test.self().visible_devices) {
    for (int i = 0; i < size(); ++i) {
      gpus_[i].device = i;
      CUDA_OK(test_, cudaSetDevice(i));
      CUDA_OK(test_, cudaStreamCreateWithFlags(&gpus_[i].stream, cudaStreamNonBlocking));
      for (int32_t** buffer : {&gpus_[i].send, &gpus_[i].receive}) {
        CUDA_OK(test_, cudaMalloc(reinterpret_cast<void**>(buffer), kCount * sizeof(int32_t)));
      }
    }
    CUDA_OK(test_, cudaSetDevice(test.self().device));
  }
  ~Gpus() {
    for (Gpu& gpu : gpus_) {
      // Ends blocked work first; the memory is freed afterwards.
      if (!test_.ok() && gpu.comm != nullptr) ncclCommAbort(gpu.comm);
    }
    for (Gpu& gpu : gpus_) {
      cudaSetDevice(gpu.device);
      cudaFree(gpu.send);
      cudaFree(gpu.receive);
      if (gpu.stream != nullptr) cudaStreamDestroy(gpu.stream);
    }
    cudaSetDevice(test_.self().device);
  }
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  int size() const { return static_cast<int>(gpus_.size()); }
  Gpu& operator[](int i) { return gpus_[i]; }

  void InitAll(const int* devices = nullptr) {
    std::vector<ncclComm_t> comms(size());
    NCCL_OK(test_, ncclCommInitAll(comms.data(), size(), devices));
    for (int i = 0; i < size(); ++i) gpus_[devices == nullptr ? i : devices[i]].comm = comms[i];
  }

  // Runs an all-reduce of `value(i)` over all of them, in one group.
  template <typename Value>
  void Sum(Value value, int32_t expected) {
    for (int i = 0; i < size(); ++i) Fill(i, value(i));
    NCCL_OK(test_, ncclGroupStart());
    for (Gpu& gpu : gpus_) {
      NCCL_OK(test_, ncclAllReduce(gpu.send, gpu.receive, kCount, ncclInt32, ncclSum, gpu.comm,
                                   gpu.stream));
    }
    NCCL_OK(test_, ncclGroupEnd());
    for (int i = 0; i < size(); ++i) Expect(i, expected);
  }
  void Fill(int i, int32_t value) {
    CUDA_OK(test_, cudaSetDevice(i));
    const std::vector<int32_t> values(kCount, value);
    CUDA_OK(test_, cudaMemcpy(gpus_[i].send, values.data(), kCount * sizeof(int32_t),
                              cudaMemcpyHostToDevice));
    CUDA_OK(test_, cudaSetDevice(test_.self().device));
  }
  void Expect(int i, int32_t value, const Location& where = Location::current()) {
    CUDA_OK(test_, cudaSetDevice(i));
    IntBuffer buffer(test_, gpus_[i].receive, kCount, gpus_[i].stream);
    buffer.Expect(value, "the output", where);
    CUDA_OK(test_, cudaSetDevice(test_.self().device));
  }

  void DestroyComms() {
    for (Gpu& gpu : gpus_) {
      NCCL_OK(test_, ncclCommDestroy(gpu.comm));
      if (test_.ok()) gpu.comm = nullptr;
    }
  }

 private:
  Test& test_;
  std::vector<Gpu> gpus_;
};

CONFORMANCE_TEST(one_process, init_all_of_all_devices, .who = ParticipantSet::kHostLeaders,
                 .min_devices = 2) {
  Gpus gpus(t);
  gpus.InitAll();
  for (int i = 0; i < gpus.size(); ++i) {
    int rank = -1;
    int size = -1;
    int device = -1;
    NCCL_OK(t, ncclCommUserRank(gpus[i].comm, &rank));
    NCCL_OK(t, ncclCommCount(gpus[i].comm, &size));
    NCCL_OK(t, ncclCommCuDevice(gpus[i].comm, &device));
    t.ExpectEqual(i, rank, "the rank");
    t.ExpectEqual(gpus.size(), size, "the size");
    t.ExpectEqual(i, device, "the device");
  }
  gpus.Sum([](int i) { return i + 1; }, SumOfRanks(gpus.size()));
  gpus.DestroyComms();
}

CONFORMANCE_TEST(one_process, init_all_in_the_order_of_the_list,
                 .who = ParticipantSet::kHostLeaders, .min_devices = 2) {
  Gpus gpus(t);
  std::vector<int> devices(gpus.size());
  std::iota(devices.rbegin(), devices.rend(), 0);
  gpus.InitAll(devices.data());
  int rank = -1;
  NCCL_OK(t, ncclCommUserRank(gpus[0].comm, &rank));
  t.ExpectEqual(gpus.size() - 1, rank, "the rank of the last device in the list");
  gpus.Sum([](int) { return 1; }, gpus.size());
  gpus.DestroyComms();
}

CONFORMANCE_TEST(one_process, init_all_keeps_the_current_device,
                 .who = ParticipantSet::kHostLeaders, .min_devices = 2) {
  Gpus gpus(t);
  CUDA_OK(t, cudaSetDevice(1));
  gpus.InitAll();
  int current = -1;
  CUDA_OK(t, cudaGetDevice(&current));
  t.ExpectEqual(1, current, "the current device after ncclCommInitAll");
  gpus.DestroyComms();
}

// Returns true if ranks may share a GPU; then the test is skipped.
bool SkipsWhereGpusAreShared(Test& t) {
  if (std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") == nullptr) return false;
  t.Skip("NCCL_MULTI_RANK_GPU_ENABLE allows several ranks per GPU");
  return true;
}

CONFORMANCE_TEST(one_process, init_all_of_a_device_twice_is_invalid_usage,
                 .who = ParticipantSet::kHostLeaders, .min_devices = 2) {
  if (SkipsWhereGpusAreShared(t)) return;
  ncclComm_t comms[2] = {};
  const int devices[] = {0, 0};
  NCCL_RETURNS(t, ncclInvalidUsage, ncclCommInitAll(comms, 2, devices));
}

CONFORMANCE_TEST(one_process, init_all_of_no_such_device_is_invalid_argument,
                 .who = ParticipantSet::kHostLeaders, .min_devices = 2) {
  ncclComm_t comms[2] = {};
  const int devices[] = {0, t.self().visible_devices};
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommInitAll(comms, 2, devices));
  const int negative[] = {0, -1};
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommInitAll(comms, 2, negative));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommInitAll(comms, -1, nullptr));
  NCCL_RETURNS(t, ncclInvalidArgument, ncclCommInitAll(nullptr, 1, nullptr));
}

CONFORMANCE_TEST(one_process, two_ranks_on_one_device_are_invalid_usage,
                 .who = ParticipantSet::kHostLeaders, .min_devices = 2) {
  if (SkipsWhereGpusAreShared(t)) return;
  ncclUniqueId id;
  ncclComm_t comms[2] = {};
  NCCL_OK(t, ncclGetUniqueId(&id));
  NCCL_OK(t, ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) NCCL_OK(t, ncclCommInitRank(&comms[rank], 2, id, rank));
  NCCL_RETURNS(t, ncclInvalidUsage, ncclGroupEnd());
}

// All GPUs of all hosts; one thread per host drives its GPUs.
CONFORMANCE_TEST(one_process, init_of_a_world_in_a_group, .who = ParticipantSet::kHostLeaders,
                 .min_devices = 2) {
  Gpus gpus(t);
  const ncclUniqueId id = t.SharedId();
  int first = 0;
  int size = 0;
  for (const Self& one : t.participants()) {
    if (one.rank < t.rank()) first += one.visible_devices;
    size += one.visible_devices;
  }
  NCCL_OK(t, ncclGroupStart());
  for (int i = 0; i < gpus.size(); ++i) {
    CUDA_OK(t, cudaSetDevice(i));
    NCCL_OK(t, ncclCommInitRank(&gpus[i].comm, size, id, first + i));
  }
  NCCL_OK(t, ncclGroupEnd());
  gpus.Sum([&](int i) { return first + i + 1; }, SumOfRanks(size));
  gpus.DestroyComms();
}

CONFORMANCE_TEST(one_process, group_end_restores_the_current_device,
                 .who = ParticipantSet::kHostLeaders, .min_devices = 2) {
  Gpus gpus(t);
  gpus.InitAll();
  for (int current : {0, 1}) {
    CUDA_OK(t, cudaSetDevice(current));
    NCCL_OK(t, ncclGroupStart());
    for (int i = 0; i < gpus.size(); ++i) {
      NCCL_OK(t, ncclAllReduce(gpus[i].send, gpus[i].receive, kCount, ncclInt32, ncclSum,
                               gpus[i].comm, gpus[i].stream));
    }
    NCCL_OK(t, ncclGroupEnd());
    int now = -1;
    CUDA_OK(t, cudaGetDevice(&now));
    t.ExpectEqual(current, now, "the current device after ncclGroupEnd");
  }
  for (int i = 0; i < gpus.size(); ++i) t.Wait(gpus[i].stream);
  gpus.DestroyComms();
}

CONFORMANCE_TEST(one_process, sends_and_receives_between_its_gpus,
                 .who = ParticipantSet::kHostLeaders, .min_devices = 2) {
  Gpus gpus(t);
  gpus.InitAll();
  const int n = gpus.size();
  for (int i = 0; i < n; ++i) gpus.Fill(i, 10 + i);
  NCCL_OK(t, ncclGroupStart());
  for (int i = 0; i < n; ++i) {
    NCCL_OK(t,
            ncclSend(gpus[i].send, kCount, ncclInt32, (i + 1) % n, gpus[i].comm, gpus[i].stream));
    NCCL_OK(t, ncclRecv(gpus[i].receive, kCount, ncclInt32, (i + n - 1) % n, gpus[i].comm,
                        gpus[i].stream));
  }
  NCCL_OK(t, ncclGroupEnd());
  for (int i = 0; i < n; ++i) gpus.Expect(i, 10 + (i + n - 1) % n);
  gpus.DestroyComms();
}

// One communicator over the even GPUs, one over the odd ones, both in one group.
CONFORMANCE_TEST(one_process, split_in_a_group, .who = ParticipantSet::kHostLeaders,
                 .min_devices = 2) {
  Gpus gpus(t);
  gpus.InitAll();
  std::vector<ncclComm_t> parents;
  for (int i = 0; i < gpus.size(); ++i) parents.push_back(gpus[i].comm);
  std::vector<ncclComm_t> children(gpus.size());
  NCCL_OK(t, ncclGroupStart());
  for (int i = 0; i < gpus.size(); ++i) {
    NCCL_OK(t, ncclCommSplit(parents[i], i % 2, i, &children[i], nullptr));
  }
  NCCL_OK(t, ncclGroupEnd());
  for (ncclComm_t child : children) t.TakeOwnership(child);
  for (int i = 0; i < gpus.size(); ++i) gpus.Fill(i, 1);
  NCCL_OK(t, ncclGroupStart());
  for (int i = 0; i < gpus.size(); ++i) {
    NCCL_OK(t, ncclAllReduce(gpus[i].send, gpus[i].receive, kCount, ncclInt32, ncclSum, children[i],
                             gpus[i].stream));
  }
  NCCL_OK(t, ncclGroupEnd());
  for (int i = 0; i < gpus.size(); ++i) gpus.Expect(i, (gpus.size() + 1 - i % 2) / 2);
  for (ncclComm_t child : children) t.Destroy(child);
  gpus.DestroyComms();
}

CONFORMANCE_TEST(one_process, threads_of_one_process, .who = ParticipantSet::kHostLeaders,
                 .min_devices = 2) {
  Gpus gpus(t);
  gpus.InitAll();
  for (int i = 0; i < gpus.size(); ++i) gpus.Fill(i, i + 1);
  std::vector<std::thread> threads;
  std::vector<ncclResult_t> results(gpus.size(), ncclInternalError);
  for (int i = 0; t.ok() && i < gpus.size(); ++i) {
    threads.emplace_back([&, i] {
      cudaSetDevice(i);
      results[i] = ncclAllReduce(gpus[i].send, gpus[i].receive, kCount, ncclInt32, ncclSum,
                                 gpus[i].comm, gpus[i].stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (ncclResult_t result : results) t.ExpectEqual(ncclSuccess, result, "a thread's all-reduce");
  for (int i = 0; i < gpus.size(); ++i) gpus.Expect(i, SumOfRanks(gpus.size()));
  gpus.DestroyComms();
}

}  // namespace one_process_tests
}  // namespace conformance
