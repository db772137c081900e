// The command line's options.
#ifndef EXAMPLES_COLLECTIVE_PERF_OPTIONS_H_
#define EXAMPLES_COLLECTIVE_PERF_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "collective_perf/collective.h"
#include "collective_perf/element_type.h"

namespace collective_perf {

struct ReductionOp {
  std::string_view name;
  ncclRedOp_t nccl;
  // Each rank multiplies its input by a factor of its own first. The operator is created for each
  // communicator and type; `nccl` is the operation after the multiplication.
  bool scaled = false;
};

struct Options {
  std::vector<const Collective*> collectives;
  std::vector<const ElementType*> types;
  std::vector<ReductionOp> reductions;
  uint64_t min_bytes = 32 << 20;
  uint64_t max_bytes = 32 << 20;
  uint64_t factor = 2;
  int iterations = 20;
  int warmup_iterations = 1;
  int gpus_per_process = 1;
  int root = 0;
  bool out_of_place = true;
  bool in_place = true;
  bool check = true;
};

// The options, or the exit status if the program should end now (0 after --help). Prints errors on
// stderr.
struct ParsedOptions {
  Options options;
  std::optional<int> exit_status;
};
ParsedOptions ParseOptions(int argc, char** argv);

}  // namespace collective_perf

#endif  // EXAMPLES_COLLECTIVE_PERF_OPTIONS_H_
