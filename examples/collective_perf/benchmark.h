// Times and checks one collective at one size.
#ifndef EXAMPLES_COLLECTIVE_PERF_BENCHMARK_H_
#define EXAMPLES_COLLECTIVE_PERF_BENCHMARK_H_

#include <optional>
#include <vector>

#include "collective_perf/collective.h"
#include "collective_perf/options.h"
#include "collective_perf/pattern.h"
#include "collective_perf/ranks.h"

namespace collective_perf {

struct Figures {
  double microseconds = 0;    // of one call, on the slowest process
  double algorithm_gbps = 0;  // GB/s, of the larger buffer
  double bus_gbps = 0;
  std::optional<uint64_t> wrong;  // elements over all ranks; empty when unchecked
};

// One (collective, type, operator, root): creates its data once, for all sizes.
class Benchmark {
 public:
  Benchmark(const Options& options, const Collective& collective, const ElementType& type,
            std::optional<ReductionOp> reduction, Ranks* ranks);
  ~Benchmark();
  Benchmark(const Benchmark&) = delete;
  Benchmark& operator=(const Benchmark&) = delete;

  // Collective. REQUIRES: the ranks' buffers hold `count` elements (times the number of ranks, if
  // needed).
  Figures Run(size_t count, bool in_place);

 private:
  // The buffers that one rank passes to the call.
  struct Buffers {
    std::byte* send;
    std::byte* receive;
  };
  Buffers BuffersOf(const LocalRank& self, size_t count, bool in_place) const;

  // The operator that rank `self` passes to the call: a predefined one, or one of its communicator.
  ncclRedOp_t MakeOperator(const LocalRank& self) const;
  void Launch(size_t count, bool in_place);
  double TimePerCallUs(size_t count, bool in_place);
  uint64_t CountWrong(size_t count, bool in_place);
  void Prepare(const LocalRank& self, size_t local, size_t count, bool in_place);
  uint64_t CountWrongOf(const LocalRank& self, size_t count, bool in_place);
  uint64_t CountOverwritten() const;

  const Options& options_;
  const Collective& collective_;
  const ElementType& type_;
  std::optional<ReductionOp> reduction_;
  Ranks& ranks_;
  Pattern pattern_;
  std::vector<PeriodicData> inputs_;    // of the local ranks
  std::vector<ncclRedOp_t> operators_;  // of the local ranks
  // Reduced: one; gathered, or received from another rank: each rank's; broadcast: the root's.
  std::vector<PeriodicData> expected_;
  std::vector<std::byte> host_;
};

}  // namespace collective_perf

#endif  // EXAMPLES_COLLECTIVE_PERF_BENCHMARK_H_
