// The peer: MPI_Allreduce of float32 sums, timed as collective_perf times its calls. Prints
// microseconds per call, the slowest rank's. Started by mpirun.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

constexpr int kWarmup = 5;

void Reduce(const std::vector<float>& in, std::vector<float>& out) {
  MPI_Allreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("MPI_Allreduce of float32 sums: microseconds per call, the slowest rank's");
  size_t bytes = 0;
  int iterations = 0;
  app.add_option("bytes", bytes)->required();
  app.add_option("iterations", iterations)->required()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const size_t count = bytes / sizeof(float);
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<float> in(count, 1.0f), out(count, 0.0f);
  for (int i = 0; i < kWarmup; ++i) Reduce(in, out);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) Reduce(in, out);
  double mine = (MPI_Wtime() - start) / iterations * 1e6, slowest = 0;
  const bool wrong =
      std::any_of(out.begin(), out.end(), [&](float x) { return x != static_cast<float>(ranks); });
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%.3f\n", slowest);
  MPI_Finalize();
  return wrong ? 1 : 0;
}
