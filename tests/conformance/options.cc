#include "conformance/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

namespace conformance {

ParsedOptions ParseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  int limit_s = static_cast<int>(options.limit.count());
  const std::map<std::string, BeyondNccl> beyond{
      {"auto", BeyondNccl::kAuto}, {"on", BeyondNccl::kOn}, {"off", BeyondNccl::kOff}};

  CLI::App app(
      "Checks that a library behaves as NCCL documents. An ordinary NCCL program: run it with the "
      "library under test.\n"
      "One process per GPU (torchrun's RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), "
      "one "
      "process with all GPUs\n"
      "(without these variables), or both (-g). Exits with 0 only if nothing failed.",
      "conformance");
  app.add_flag("--list", options.list, "print the names of the selected tests and exit");
  app.add_option("--filter", options.filters,
                 "run only tests whose /group/name contains one of these");
  app.add_option("--exclude", options.excluded,
                 "skip tests whose /group/name contains one of these");
  app.add_flag("-v,--verbose", options.verbose,
               "print a line for each test, not only for failed ones");
  app.add_option("-g,--gpus-per-process", options.gpus_per_process,
                 "number of ranks in each process, with one GPU each")
      ->check(CLI::Range(1, 64));
  app.add_option("--limit", limit_s, "time limit of one test in seconds")
      ->check(CLI::Range(1, 3600));
  app.add_option("--beyond-nccl", options.beyond_nccl,
                 "also test what a managed service guarantees and NCCL leaves undefined; auto: "
                 "only if the library is preloaded, which the real one never is")
      ->transform(CLI::CheckedTransformer(beyond));
  auto* random =
      app.add_flag("--random", options.random,
                   "run random programs instead, and compare them with a sequential model");
  app.add_option("--seed", options.seed, "the first seed")->needs(random)->capture_default_str();
  app.add_option("--seeds", options.seeds, "number of seeds, with one program each")
      ->needs(random)
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    options.limit = std::chrono::seconds(limit_s);
  } catch (const CLI::ParseError& error) {
    parsed.exit_status = app.exit(error) == 0 ? 0 : 1;
  }
  return parsed;
}

bool IsChosen(const Options& options, const std::string& name) {
  const auto contains = [&](const std::string& part) {
    return ("/" + name).find(part) != std::string::npos;
  };
  const bool wanted = options.filters.empty() ||
                      std::any_of(options.filters.begin(), options.filters.end(), contains);
  return wanted && std::none_of(options.excluded.begin(), options.excluded.end(), contains);
}

}  // namespace conformance
