// The peer OpenMPI: one collective of float32, timed like collective_perf. Prints microseconds per
// call of the slowest rank, one line per size. Started by mpirun.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

// Sizes as in nccl-tests: bytes of the larger buffer of a rank.
class Call {
 public:
  Call(const std::string& op, size_t bytes)
      : op_(op),
        elements_(bytes / sizeof(float)),
        in_(op == "all_gather" ? Part() : elements_, 1.0f),
        out_(op == "reduce_scatter" ? Part() : elements_) {}

  void Run() {
    const int all = static_cast<int>(elements_), part = static_cast<int>(Part());
    if (op_ == "all_reduce") {
      MPI_Allreduce(in_.data(), out_.data(), all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (op_ == "all_gather") {
      MPI_Allgather(in_.data(), part, MPI_FLOAT, out_.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
    } else if (op_ == "reduce_scatter") {
      MPI_Reduce_scatter_block(in_.data(), out_.data(), part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (op_ == "broadcast") {
      // MPI's broadcast is in place.
      std::vector<float>& buffer = Rank() == 0 ? in_ : out_;
      MPI_Bcast(buffer.data(), all, MPI_FLOAT, 0, MPI_COMM_WORLD);
    } else if (op_ == "alltoall") {
      MPI_Alltoall(in_.data(), part, MPI_FLOAT, out_.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
    } else {
      const int next = (Rank() + 1) % Ranks(), previous = (Rank() + Ranks() - 1) % Ranks();
      MPI_Sendrecv(in_.data(), all, MPI_FLOAT, next, 0, out_.data(), all, MPI_FLOAT, previous, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }

  bool Wrong() const {
    if (op_ == "broadcast" && Rank() == 0) return false;  // its output is the input
    const bool sums = op_ == "all_reduce" || op_ == "reduce_scatter";
    const float expected = sums ? static_cast<float>(Ranks()) : 1.0f;
    return std::any_of(out_.begin(), out_.end(), [&](float x) { return x != expected; });
  }

 private:
  static int Rank() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  static int Ranks() {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return ranks;
  }
  size_t Part() const { return elements_ / static_cast<size_t>(Ranks()); }

  const std::string op_;
  const size_t elements_;
  std::vector<float> in_;
  std::vector<float> out_;
};

// Microseconds per call of the slowest rank; negative if a result is wrong.
double Time(const std::string& op, size_t bytes, int iterations, int warmup) {
  Call call(op, bytes);
  for (int i = 0; i < warmup; ++i) call.Run();
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) call.Run();
  double mine = (MPI_Wtime() - start) / iterations * 1e6, slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  int wrong = call.Wrong() ? 1 : 0, any_wrong = 0;
  MPI_Allreduce(&wrong, &any_wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return any_wrong != 0 ? -1 : slowest;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "One MPI collective of float32: microseconds per call of the slowest rank, one line per "
      "size");
  std::vector<size_t> sizes;
  int iterations = 0;
  int warmup = 5;
  std::string op = "all_reduce";
  app.add_option("iterations", iterations)->required()->check(CLI::PositiveNumber);
  app.add_option("bytes", sizes, "sizes in bytes")->required();
  app.add_option("--warmup", warmup, "number of calls before the measurement")
      ->capture_default_str();
  app.add_option("--op", op)
      ->capture_default_str()
      ->check(CLI::IsMember(
          {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall", "sendrecv"}));
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bool wrong = false;
  for (const size_t bytes : sizes) {
    const double microseconds = Time(op, bytes, iterations, warmup);
    wrong = wrong || microseconds < 0;
    if (rank == 0) std::printf("%.3f\n", microseconds);
  }
  MPI_Finalize();
  if (wrong && rank == 0) std::fprintf(stderr, "mpi_collective: wrong result\n");
  return wrong ? 1 : 0;
}
