// collective_perf: times NCCL's collectives over a range of sizes and checks every element of the
// results.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>

#include "collective_perf/benchmark.h"
#include "collective_perf/options.h"

namespace collective_perf {
namespace {

// A line of the report, with the columns of nccl-tests.
struct Row {
  size_t bytes = 0;  // of the larger buffer
  size_t count = 0;  // as the call takes it
  std::string_view type;
  std::string_view reduction;  // "none" if nothing is reduced
  int root = -1;
  std::optional<Figures> out_of_place;
  std::optional<Figures> in_place;
};

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

struct Totals {
  uint64_t wrong = 0;
  double bus_gbps = 0;
  int measurements = 0;

  void Add(const std::optional<Figures>& figures) {
    if (!figures) return;
    wrong += figures->wrong.value_or(0);
    bus_gbps += figures->bus_gbps;
    ++measurements;
  }
};

void RunSizes(const Options& options, const Collective& collective, const ElementType& type,
              std::optional<ReductionOp> reduction, Ranks* ranks, Totals* totals) {
  Benchmark benchmark(options, collective, type, reduction, ranks);
  for (uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    size_t count = collective.Count(bytes / type.bytes, ranks->size());
    Row row{.bytes = std::max(collective.SendElements(count, ranks->size()),
                              collective.ReceiveElements(count, ranks->size())) *
                     type.bytes,
            .count = count,
            .type = type.name,
            .reduction = reduction ? reduction->name : "none",
            .root = collective.rooted() ? options.root : -1,
            .out_of_place = {},
            .in_place = {}};
    if (options.out_of_place) row.out_of_place = benchmark.Run(count, /*in_place=*/false);
    if (options.in_place && collective.has_in_place_form()) {
      row.in_place = benchmark.Run(count, /*in_place=*/true);
    }
    totals->Add(row.out_of_place);
    totals->Add(row.in_place);
    if (ranks->prints()) PrintRow(row);
    if (bytes == 0 || bytes > options.max_bytes / options.factor) break;
    bytes *= options.factor;
  }
}

Totals RunAll(const Options& options, Ranks* ranks) {
  Totals totals;
  for (const Collective* collective : options.collectives) {
    if (ranks->prints()) PrintHeading(collective->name, ranks->size());
    for (const ElementType* type : options.types) {
      if (!collective->reduces) {
        RunSizes(options, *collective, *type, std::nullopt, ranks, &totals);
        continue;
      }
      for (const ReductionOp& reduction : options.reductions) {
        RunSizes(options, *collective, *type, reduction, ranks, &totals);
      }
    }
  }
  return totals;
}

int Main(int argc, char** argv) {
  ParsedOptions parsed = ParseOptions(argc, argv);
  if (parsed.exit_status) return *parsed.exit_status;
  const Options& options = parsed.options;
  const JobPlace place = ReadJobPlace();
  const int rank_count = place.world_size * options.gpus_per_process;
  if (options.root >= rank_count) {
    std::fprintf(stderr, "--root is %d; expected less than the number of ranks, %d\n", options.root,
                 rank_count);
    return 1;
  }
  Ranks ranks(place, options.gpus_per_process, options.max_bytes);
  Totals totals = RunAll(options, &ranks);
  if (ranks.prints()) {
    std::printf("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(totals.wrong),
                options.check ? (totals.wrong == 0 ? "OK" : "FAILED") : "(not checked)");
    std::printf("# Avg bus bandwidth    : %g\n",
                totals.bus_gbps / std::max(totals.measurements, 1));
  }
  return totals.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace collective_perf

int main(int argc, char** argv) { return collective_perf::Main(argc, argv); }
