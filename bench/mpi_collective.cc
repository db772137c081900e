// The peer OpenMPI: MPI_Allreduce of float32 sums or MPI_Allgather, timed like collective_perf.
// Prints microseconds per call of the slowest rank. Started by mpirun.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

// Sizes as in nccl-tests: bytes of the input of an all-reduce, of the output of an all-gather.
class Call {
 public:
  Call(const std::string& op, size_t bytes, int ranks)
      : gathers_(op == "all_gather"),
        count_(static_cast<int>(bytes / sizeof(float) / (gathers_ ? ranks : 1))),
        ranks_(ranks),
        in_(static_cast<size_t>(count_), 1.0f),
        out_(static_cast<size_t>(count_) * (gathers_ ? ranks : 1)) {}

  void Run() {
    if (gathers_) {
      MPI_Allgather(in_.data(), count_, MPI_FLOAT, out_.data(), count_, MPI_FLOAT, MPI_COMM_WORLD);
    } else {
      MPI_Allreduce(in_.data(), out_.data(), count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
  }
  bool Wrong() const {
    const float expected = gathers_ ? 1.0f : static_cast<float>(ranks_);
    return std::any_of(out_.begin(), out_.end(), [&](float x) { return x != expected; });
  }

 private:
  const bool gathers_;
  const int count_;
  const int ranks_;
  const std::vector<float> in_;
  std::vector<float> out_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "MPI_Allreduce or MPI_Allgather of float32: microseconds per call of the slowest rank");
  size_t bytes = 0;
  int iterations = 0;
  int warmup = 5;
  std::string op = "all_reduce";
  app.add_option("bytes", bytes)->required();
  app.add_option("iterations", iterations)->required()->check(CLI::PositiveNumber);
  app.add_option("--warmup", warmup, "number of calls before the measurement")
      ->capture_default_str();
  app.add_option("--op", op)
      ->capture_default_str()
      ->check(CLI::IsMember({"all_reduce", "all_gather"}));
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Call call(op, bytes, ranks);
  for (int i = 0; i < warmup; ++i) call.Run();
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) call.Run();
  double mine = (MPI_Wtime() - start) / iterations * 1e6, slowest = 0;
  const bool wrong = call.Wrong();
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%.3f\n", slowest);
  MPI_Finalize();
  return wrong ? 1 : 0;
}
