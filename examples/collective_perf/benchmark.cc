#include "collective_perf/benchmark.h"

#include <algorithm>
#include <chrono>

#include "check_calls.h"

namespace collective_perf {
namespace {

// No pattern produces this value in every byte, so an element that was never written is detected.
constexpr int kPoison = 0xA5;

}  // namespace

Benchmark::Benchmark(const Options& options, const Collective& collective, const ElementType& type,
                     std::optional<ReductionOp> reduction, Ranks* ranks)
    : options_(options),
      collective_(collective),
      type_(type),
      reduction_(reduction),
      ranks_(*ranks),
      pattern_(type, reduction, ranks->size()) {
  for (const LocalRank& self : ranks_.local()) {
    inputs_.push_back(pattern_.Input(self.rank));
    operators_.push_back(MakeOperator(self));
  }
  if (!options_.check) return;
  if (collective_.reduces) {
    expected_.push_back(pattern_.Reduced());
  } else if (collective_.only_root_sends) {  // each rank's block of the root's input, or all of it
    expected_.push_back(pattern_.Input(options_.root));
  } else {
    for (int rank = 0; rank < ranks_.size(); ++rank) expected_.push_back(pattern_.Input(rank));
  }
}

Benchmark::~Benchmark() {
  if (!reduction_ || !reduction_->scaled) return;
  for (size_t i = 0; i < operators_.size(); ++i) {
    NCCL_OK(ncclRedOpDestroy(operators_[i], ranks_.local()[i].comm));
  }
}

ncclRedOp_t Benchmark::MakeOperator(const LocalRank& self) const {
  if (!reduction_ || !reduction_->scaled) return reduction_ ? reduction_->nccl : ncclSum;
  std::byte factor[sizeof(uint64_t)];
  Encode(type_, pattern_.Factor(self.rank), factor);
  ncclRedOp_t made;
  NCCL_OK(ncclRedOpCreatePreMulSum(&made, factor, type_.nccl, ncclScalarHostImmediate, self.comm));
  return made;
}

Figures Benchmark::Run(size_t count, bool in_place) {
  for (size_t i = 0; i < ranks_.local().size(); ++i) Prepare(ranks_.local()[i], i, count, in_place);
  Figures figures;
  figures.microseconds = ranks_.Max(TimePerCallUs(count, in_place));
  size_t elements = std::max(collective_.SendElements(count, ranks_.size()),
                             collective_.ReceiveElements(count, ranks_.size()));
  figures.algorithm_gbps =
      static_cast<double>(elements * type_.bytes) / (figures.microseconds * 1e3);
  figures.bus_gbps = figures.algorithm_gbps * collective_.bus_factor(ranks_.size());
  if (options_.check) figures.wrong = ranks_.Sum(CountWrong(count, in_place));
  return figures;
}

// In place: NCCL's rule for which part of the larger buffer is the smaller one.
Benchmark::Buffers Benchmark::BuffersOf(const LocalRank& self, size_t count, bool in_place) const {
  if (!in_place) return {self.send, self.receive};
  std::byte* own_part = self.receive + self.rank * count * type_.bytes;
  // If only the root has a buffer with a block per rank, the others' buffers contain no part of it.
  const bool has_part = !collective_.rooted() || self.rank == options_.root;
  return {collective_.receive_per_rank && has_part ? own_part : self.receive,
          collective_.send_per_rank && has_part ? own_part : self.receive};
}

void Benchmark::Launch(size_t count, bool in_place) {
  NCCL_OK(ncclGroupStart());
  for (size_t i = 0; i < ranks_.local().size(); ++i) {
    const LocalRank& self = ranks_.local()[i];
    Buffers buffers = BuffersOf(self, count, in_place);
    NCCL_OK(collective_.call({.send = buffers.send,
                              .receive = buffers.receive,
                              .count = count,
                              .type = type_.nccl,
                              .reduction = operators_[i],
                              .root = options_.root,
                              .comm = self.comm,
                              .stream = self.stream}));
  }
  NCCL_OK(ncclGroupEnd());
}

double Benchmark::TimePerCallUs(size_t count, bool in_place) {
  for (int i = 0; i < options_.warmup_iterations; ++i) Launch(count, in_place);
  ranks_.Synchronize();
  ranks_.Sum(0);  // a barrier: all ranks start the clock together
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < options_.iterations; ++i) Launch(count, in_place);
  ranks_.Synchronize();
  std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / options_.iterations;
}

// Checks one more call with fresh data, because in-place repetitions changed their own input.
uint64_t Benchmark::CountWrong(size_t count, bool in_place) {
  for (size_t i = 0; i < ranks_.local().size(); ++i) Prepare(ranks_.local()[i], i, count, in_place);
  Launch(count, in_place);
  ranks_.Synchronize();
  uint64_t wrong = 0;
  for (const LocalRank& self : ranks_.local()) wrong += CountWrongOf(self, count, in_place);
  return wrong;
}

void Benchmark::Prepare(const LocalRank& self, size_t local, size_t count, bool in_place) {
  Buffers buffers = BuffersOf(self, count, in_place);
  size_t send_bytes = collective_.SendElements(count, ranks_.size()) * type_.bytes;
  size_t receive_bytes = collective_.ReceiveElements(count, ranks_.size()) * type_.bytes;
  CUDA_OK(cudaMemsetAsync(buffers.receive, kPoison, receive_bytes, self.stream));
  bool sends_nothing = collective_.only_root_sends && self.rank != options_.root;
  if (!sends_nothing) {
    // A rank's own part of an all-gather starts at element 0 of its own sequence.
    host_.resize(send_bytes);
    inputs_[local].Fill(host_.data(), 0, send_bytes / type_.bytes);
    CUDA_OK(cudaMemcpyAsync(buffers.send, host_.data(), send_bytes, cudaMemcpyHostToDevice,
                            self.stream));
  }
  CUDA_OK(cudaStreamSynchronize(self.stream));
}

uint64_t Benchmark::CountWrongOf(const LocalRank& self, size_t count, bool in_place) {
  size_t elements = collective_.ReceiveElements(count, ranks_.size());
  host_.resize(elements * type_.bytes);
  CUDA_OK(cudaMemcpyAsync(host_.data(), BuffersOf(self, count, in_place).receive, host_.size(),
                          cudaMemcpyDeviceToHost, self.stream));
  CUDA_OK(cudaStreamSynchronize(self.stream));
  if (collective_.only_root_receives && self.rank != options_.root) {
    // Such a rank's in-place buffer contains what it sends; only that much is checked.
    if (in_place) {
      return pattern_.Input(self.rank).CountWrong(host_.data(), 0,
                                                  collective_.SendElements(count, ranks_.size()));
    }
    return CountOverwritten();
  }
  if (collective_.from_previous_rank) {
    const int from = (self.rank + ranks_.size() - 1) % ranks_.size();
    return expected_[from].CountWrong(host_.data(), 0, elements);
  }
  if (!collective_.receive_per_rank) {
    // This rank has its part of the scattered result.
    size_t first = collective_.send_per_rank ? self.rank * count : 0;
    return expected_.front().CountWrong(host_.data(), first, elements);
  }
  // Block by block; the blocks of an exchange come from the middle of their sender's input.
  const size_t first = collective_.exchanges() ? self.rank * count : 0;
  uint64_t wrong = 0;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    wrong += expected_[rank].CountWrong(host_.data() + rank * count * type_.bytes, first, count);
  }
  return wrong;
}

// Counts bytes in host_ that were overwritten by mistake.
uint64_t Benchmark::CountOverwritten() const {
  return static_cast<uint64_t>(std::count_if(
      host_.begin(), host_.end(), [](std::byte value) { return value != std::byte{kPoison}; }));
}

}  // namespace collective_perf
