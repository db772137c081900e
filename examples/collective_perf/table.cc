#include "collective_perf/table.h"

#include <cstdio>

namespace collective_perf {
namespace {

void PrintFigures(const std::optional<Figures>& figures) {
  if (!figures) {
    std::printf("  %8s %7s %7s %6s", "-", "-", "-", "-");
    return;
  }
  int decimals = figures->microseconds < 100 ? 2 : (figures->microseconds < 10'000 ? 1 : 0);
  std::printf("  %8.*f %7.2f %7.2f", decimals, figures->microseconds, figures->algorithm_gbps,
              figures->bus_gbps);
  if (figures->wrong) {
    std::printf(" %6llu", static_cast<unsigned long long>(*figures->wrong));
  } else {
    std::printf(" %6s", "N/A");
  }
}

}  // namespace

void PrintHeading(std::string_view collective, int ranks) {
  std::printf("# %.*s, %d ranks\n", static_cast<int>(collective.size()), collective.data(), ranks);
  std::printf("# %56s  %31s  %31s\n", "", "out-of-place          ", "in-place            ");
  std::printf("# %10s %13s %9s %7s %7s", "size", "count", "type", "redop", "root");
  for (int half = 0; half < 2; ++half)
    std::printf("  %8s %7s %7s %6s", "time", "algbw", "busbw", "#wrong");
  std::printf("\n# %10s %13s %9s %7s %7s", "(B)", "(elements)", "", "", "");
  for (int half = 0; half < 2; ++half)
    std::printf("  %8s %7s %7s %6s", "(us)", "(GB/s)", "(GB/s)", "");
  std::printf("\n");
  std::fflush(stdout);
}

void PrintRow(const Row& row) {
  std::printf("%12zu %13zu %9.*s %7.*s %7d", row.bytes, row.count,
              static_cast<int>(row.type.size()), row.type.data(),
              static_cast<int>(row.reduction.size()), row.reduction.data(), row.root);
  PrintFigures(row.out_of_place);
  PrintFigures(row.in_place);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace collective_perf
