#include "collective_perf/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string>

namespace collective_perf {
namespace {

constexpr ReductionOp kReductions[] = {{"sum", ncclSum}, {"prod", ncclProd},
                                       {"min", ncclMin}, {"max", ncclMax},
                                       {"avg", ncclAvg}, {"premulsum", ncclSum, /*scaled=*/true}};

// Calls `take` for the entries of `all` whose names match `name`; "all" matches each. Throws CLI's
// error if none matches.
template <typename Range, typename Names, typename Take>
void Select(const std::string& option, const std::string& name, const Range& all, Names names,
            Take take) {
  bool found = false;
  std::string known;
  for (const auto& entry : all) {
    bool match = name == "all";
    for (std::string_view candidate : names(entry)) {
      match = match || candidate == name;
    }
    known += " " + std::string(names(entry)[0]);
    if (match) take(entry);
    found = found || match;
  }
  if (!found) {
    throw CLI::ValidationError(option,
                               "invalid value '" + name + "'; expected one of: all" + known);
  }
}

using Names = std::vector<std::string_view>;

void SelectKinds(const std::string& op, const std::string& type, const std::string& redop,
                 Options* options) {
  Select(
      "--op", op, Collectives(), [](const Collective& entry) { return Names{entry.name}; },
      [&](const Collective& entry) { options->collectives.push_back(&entry); });
  Select(
      "--type", type, ElementTypes(),
      [](const ElementType& entry) {
        return entry.alias.empty() ? Names{entry.name} : Names{entry.name, entry.alias};
      },
      [&](const ElementType& entry) { options->types.push_back(&entry); });
  Select(
      "--redop", redop, kReductions, [](const ReductionOp& entry) { return Names{entry.name}; },
      [&](const ReductionOp& entry) { options->reductions.push_back(entry); });
}

}  // namespace

ParsedOptions ParseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  std::string op = "all_reduce";
  std::string type = "float";
  std::string redop = "sum";
  bool only_in_place = false;
  bool only_out_of_place = false;

  CLI::App app(
      "Times NCCL collectives and checks every element of their results.\n"
      "One process per GPU (torchrun's RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT),"
      "\nseveral GPUs per process (-g), or both. Exits with status 1 if any result is wrong.",
      "collective_perf");
  CLI::AsSizeValue size(/*kb_is_1000=*/false);
  app.add_option(
         "--op", op,
         "all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, gather, scatter, "
         "sendrecv or all")
      ->capture_default_str();
  app.add_option("-d,--type", type, "element type or all")->capture_default_str();
  app.add_option("-o,--redop", redop, "sum, prod, min, max, avg, premulsum or all")
      ->capture_default_str();
  auto* min_option =
      app.add_option("-b,--min", options.min_bytes, "smallest size in bytes (8, 4K, 1M)");
  min_option->transform(size)->default_str("32M");
  auto* max_option = app.add_option("-e,--max", options.max_bytes, "largest size in bytes");
  max_option->transform(size)->default_str("32M");
  app.add_option("-f,--factor", options.factor, "ratio of consecutive sizes")
      ->check(CLI::Range(uint64_t{2}, uint64_t{1} << 30))
      ->capture_default_str();
  app.add_option("-n,--iters", options.iterations, "timed repetitions")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("-w,--warmup", options.warmup_iterations,
                 "untimed repetitions before the timed ones")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("-g,--gpus-per-process", options.gpus_per_process,
                 "ranks per process, one GPU each")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("-r,--root", options.root, "root rank of rooted collectives")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-c,--check", options.check,
                 "1: check every element of the results; 0: only measure time")
      ->capture_default_str();
  auto* in_place = app.add_flag("--in-place", only_in_place, "in place only (default: both)");
  app.add_flag("--out-of-place", only_out_of_place, "out of place only (default: both)")
      ->excludes(in_place);

  try {
    app.parse(argc, argv);
    if (max_option->count() == 0 && min_option->count() > 0) options.max_bytes = options.min_bytes;
    if (min_option->count() == 0)
      options.min_bytes = std::min(options.min_bytes, options.max_bytes);
    if (options.min_bytes > options.max_bytes) throw CLI::ValidationError("--min", "exceeds --max");
    SelectKinds(op, type, redop, &options);
  } catch (const CLI::ParseError& error) {
    parsed.exit_status = app.exit(error) == 0 ? 0 : 1;
  }
  options.out_of_place = !only_in_place;
  options.in_place = !only_out_of_place;
  return parsed;
}

}  // namespace collective_perf
