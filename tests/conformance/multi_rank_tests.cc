// More ranks than GPUs: NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30) lets ranks share a GPU, in one
// process or in several.
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace multi_rank_tests {

constexpr size_t kCount = 10'007;

// This process's ranks of a communicator, one for each entry of a list of devices.
class LocalRanks {
 public:
  // Called by all participants; each passes its devices. Ranks are ordered by participant.
  LocalRanks(Test& test, const std::vector<int>& devices, bool one_stream = false) : test_(test) {
    const std::vector<int> counts = test.ExchangeValues(static_cast<int>(devices.size()));
    size_ = std::accumulate(counts.begin(), counts.end(), 0);
    for (size_t i = 0; i < counts.size() && test.participants()[i].rank != test.rank(); ++i) {
      first_ += counts[i];
    }
    const ncclUniqueId id = test.SharedId();
    Take(devices, one_stream);
    NCCL_OK(test_, ncclGroupStart());
    for (size_t i = 0; i < devices.size(); ++i) {
      CUDA_OK(test_, cudaSetDevice(devices[i]));
      NCCL_OK(test_, ncclCommInitRank(&comms_[i], size_, id, RankOf(i)));
    }
    NCCL_OK(test_, ncclGroupEnd());
    CUDA_OK(test_, cudaSetDevice(test_.self().device));
    for (ncclComm_t comm : comms_) test_.TakeOwnership(comm);
  }
  ~LocalRanks() {
    for (ncclComm_t comm : comms_) test_.Destroy(comm);
  }
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  size_t count() const { return comms_.size(); }
  int size() const { return size_; }
  int RankOf(size_t seat) const { return first_ + static_cast<int>(seat); }

  void InOneGroup(const std::function<void(size_t)>& call) {
    NCCL_OK(test_, ncclGroupStart());
    for (size_t i = 0; test_.ok() && i < count(); ++i) call(i);
    NCCL_OK(test_, ncclGroupEnd());
  }

  void Sum() {
    for (size_t i = 0; i < count(); ++i) buffers_[i].send.Fill(RankOf(i) + 1);
    InOneGroup([&](size_t i) { NCCL_OK(test_, SumInto(buffers_[i], comms_[i], streams_[i])); });
    for (IntBuffers& buffers : buffers_) buffers.receive.Expect(SumOfRanks(size_), "the sum");
  }
  // Each rank sends to the next one.
  void Ring() {
    for (size_t i = 0; i < count(); ++i) buffers_[i].send.Fill(RankOf(i) + 100);
    InOneGroup([&](size_t i) {
      const int next = (RankOf(i) + 1) % size_;
      const int previous = (RankOf(i) + size_ - 1) % size_;
      NCCL_OK(test_,
              ncclSend(buffers_[i].send.data(), kCount, ncclInt32, next, comms_[i], streams_[i]));
      NCCL_OK(test_, ncclRecv(buffers_[i].receive.data(), kCount, ncclInt32, previous, comms_[i],
                              streams_[i]));
    });
    for (size_t i = 0; i < count(); ++i) {
      buffers_[i].receive.Expect((RankOf(i) + size_ - 1) % size_ + 100, "the received data");
    }
  }
  // Splits into even and odd ranks.
  void SumOfHalves() {
    std::vector<ncclComm_t> halves(count());
    InOneGroup([&](size_t i) {
      NCCL_OK(test_, ncclCommSplit(comms_[i], RankOf(i) % 2, RankOf(i), &halves[i], nullptr));
    });
    for (ncclComm_t half : halves) test_.TakeOwnership(half);
    for (IntBuffers& buffers : buffers_) buffers.send.Fill(1);
    InOneGroup([&](size_t i) { NCCL_OK(test_, SumInto(buffers_[i], halves[i], streams_[i])); });
    for (size_t i = 0; i < count(); ++i) {
      buffers_[i].receive.Expect((size_ + 1 - RankOf(i) % 2) / 2, "the sum of a half");
    }
    for (ncclComm_t half : halves) test_.Destroy(half);
  }

 private:
  void Take(const std::vector<int>& devices, bool one_stream) {
    comms_.resize(devices.size());
    for (int device : devices) {
      CUDA_OK(test_, cudaSetDevice(device));
      const bool shared = one_stream && !streams_.empty();
      streams_.push_back(shared ? streams_.front() : test_.NewStream());
      buffers_.emplace_back(test_, kCount, streams_.back());
    }
  }

  Test& test_;
  int first_ = 0;
  int size_ = 0;
  std::vector<ncclComm_t> comms_;
  std::vector<cudaStream_t> streams_;
  std::vector<IntBuffers> buffers_;
};

// Skips the test unless ranks may share a GPU.
bool MayShareGpus(Test& t) {
  const char* value = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool allowed = value != nullptr && std::string(value) == "1";
  if (!allowed) t.Skip("needs NCCL_MULTI_RANK_GPU_ENABLE=1");
  return allowed;
}

void Everything(LocalRanks& seats) {
  seats.Sum();
  seats.Ring();
  seats.SumOfHalves();
}

CONFORMANCE_TEST(multi_rank, several_ranks_of_a_process_on_its_gpu) {
  if (!MayShareGpus(t)) return;
  LocalRanks seats(t, {t.self().device, t.self().device, t.self().device});
  Everything(seats);
}

CONFORMANCE_TEST(multi_rank, uneven_numbers_of_ranks) {
  if (!MayShareGpus(t)) return;
  LocalRanks seats(t, std::vector<int>(1 + t.rank() % 3, t.self().device));
  Everything(seats);
}

CONFORMANCE_TEST(multi_rank, one_stream_for_all_ranks_of_a_process) {
  if (!MayShareGpus(t)) return;
  LocalRanks seats(t, {t.self().device, t.self().device}, /*one_stream=*/true);
  Everything(seats);
}

// Ranks of the same GPU are not adjacent in the order.
CONFORMANCE_TEST(multi_rank, every_gpu_of_the_host_twice, .who = ParticipantSet::kHostLeaders,
                 .min_devices = 2) {
  if (!MayShareGpus(t)) return;
  std::vector<int> devices;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < t.self().visible_devices; ++i) devices.push_back(i);
  }
  LocalRanks seats(t, devices);
  Everything(seats);
}

// Ranks of several processes, and several of this process, share a GPU.
CONFORMANCE_TEST(multi_rank, processes_share_a_gpu, .min_devices = 2) {
  if (!MayShareGpus(t)) return;
  LocalRanks seats(t, {t.self().local_rank / 2, t.self().local_rank / 2});
  Everything(seats);
}

CONFORMANCE_TEST(multi_rank, all_processes_of_a_host_on_one_gpu, .min_devices = 2) {
  if (!MayShareGpus(t)) return;
  LocalRanks seats(t, {0});
  Everything(seats);
}

CONFORMANCE_TEST(multi_rank, init_all_of_a_device_twice, .who = ParticipantSet::kHostLeaders,
                 .min_devices = 2) {
  if (!MayShareGpus(t)) return;
  const std::vector<int> devices = {0, 1, 0};
  std::vector<ncclComm_t> comms(devices.size());
  NCCL_OK(t, ncclCommInitAll(comms.data(), static_cast<int>(devices.size()), devices.data()));
  for (size_t i = 0; t.ok() && i < devices.size(); ++i) {
    int device = -1;
    NCCL_OK(t, ncclCommCuDevice(comms[i], &device));
    t.ExpectEqual(devices[i], device, "the device of a rank");
  }
  for (ncclComm_t comm : comms) t.TakeOwnership(comm);
  for (ncclComm_t comm : comms) t.Destroy(comm);
}

}  // namespace multi_rank_tests
}  // namespace conformance
