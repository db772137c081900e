// The peer: MPI_Allreduce of float32 sums, timed as collective_perf times its calls. Prints
// microseconds per call, the slowest rank's.
//
//   mpirun -np N mpi_all_reduce BYTES ITERATIONS
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kWarmup = 5;

void Reduce(const std::vector<float>& in, std::vector<float>& out) {
  MPI_Allreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: mpi_all_reduce BYTES ITERATIONS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const size_t count = std::strtoull(argv[1], nullptr, 10) / sizeof(float);
  const int iterations = std::max(1, std::atoi(argv[2]));
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
