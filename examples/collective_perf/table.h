// The lines of the report, with the columns of nccl-tests.
#ifndef EXAMPLES_COLLECTIVE_PERF_TABLE_H_
#define EXAMPLES_COLLECTIVE_PERF_TABLE_H_

#include <optional>
#include <string_view>

#include "collective_perf/benchmark.h"

namespace collective_perf {

struct Row {
  size_t bytes = 0;  // of the larger buffer
  size_t count = 0;  // as the call takes it
  std::string_view type;
  std::string_view reduction;  // "none" if nothing is reduced
  int root = -1;
  std::optional<Figures> out_of_place;
  std::optional<Figures> in_place;
};

void PrintHeading(std::string_view collective, int ranks);
void PrintRow(const Row& row);

}  // namespace collective_perf

#endif  // EXAMPLES_COLLECTIVE_PERF_TABLE_H_
