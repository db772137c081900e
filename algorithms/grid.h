// Inside of BuildPlan: an all-to-all in two hops over a grid of hosts, for so many hosts that lanes
// to all of them would take too much memory (source: Thakur, Rabenseifner and Gropp, "Optimization
// of collective communication operations in MPICH", IJHPCA 2005, section on all-to-all; Kale, Kumar
// and Varadarajan, "A framework for collective personalized communication", IPDPS 2003: the mesh).
//
// The hosts form a grid of ⌈√H⌉ columns, row by row in the order of the ring. Blocks from host
// x to host y go along the row of x to its host in the column of y, and from there along the
// column:
//
// clang-format off
//   0  1  2  3      from 1 to 11: along the row to 3, along the column to 11
//   4  5  6  7      from 9 to 2:  to 10, then to 2
//   8  9 10 11      from 13 to 3: the last row has no host in that column. So along the column
//  12 13               to 1 first, the host in the row of 3, and then along the row to 3
// clang-format on
//
// A host has lanes to its row and its column only, with any number of hosts. Both ends of a lane
// put the blocks in the same order: by source and destination host, then by pair of ranks.
//
// Memory: all slices of several blocks are packed (plan.h). In the first hop they stay in their
// slots until their pieces are copied to the staging slots of the second hop, or to outputs; in the
// second hop they are copied from their slots to outputs. A slice has at most kMaxPieces pieces. So
// pairs of ranks (index on the source host, index on the destination host) are divided into
// *waves*, in each of which a lane carries at most one slice of each hop.
//
// Cost per host, H hosts, R ranks of which L on this host, N bytes per block: nearly twice the
// bytes of a direct exchange, 2L(R−L)N in and out, and three copies of each block; 2⌈√H⌉ lanes each
// way; two hops.
#ifndef MCCS_ALGORITHMS_GRID_H_
#define MCCS_ALGORITHMS_GRID_H_

#include <cstdint>
#include <memory>

#include "algorithms/host_ring.h"
#include "algorithms/plan.h"
#include "algorithms/program_build.h"

namespace mccs {

// Positions 0 … hosts−1, row by row; the last row may be shorter than the others.
class Grid {
 public:
  explicit Grid(int hosts);

  int columns() const { return columns_; }
  int rows() const { return (hosts_ + columns_ - 1) / columns_; }
  int row(int position) const { return position / columns_; }
  int column(int position) const { return position % columns_; }
  // Number of hosts in the row; in the column.
  int RowLength(int row) const;
  int ColumnLength(int column) const;
  // The position through which blocks go from one to another; may be one of both. REQUIRES: they
  // differ.
  int Via(int from, int to) const;
  // Maximum number of hosts in the row and the column of a host, without itself.
  int peers() const { return columns_ - 1 + rows() - 1; }

 private:
  int hosts_;
  int columns_;
};

// How blocks are divided into slices; the same on all hosts.
struct GridShape {
  int local_ranks = 1;  // largest number of ranks of a host
  int wave_pairs = 1;   // pairs of ranks in a wave; pair (i, j) has number i × local_ranks + j
  int max_pieces = 1;   // of a slice
};

GridShape GridShapeOf(int hosts, int max_local_ranks);

// Upper bound of the steps of one host's program.
uint64_t MostGridSteps(int hosts, const GridShape& shape);

// One host's all-to-all. It is built lane by lane.
// REQUIRES: ring.hosts() ≥ 2; `shape` is that of the layout, and has at most UINT16_MAX steps.
// LIFETIME: what `ring` refers to outlives the build.
std::unique_ptr<ProgramBuild> GridAllToAll(const Ring& ring, const GridShape& shape);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_GRID_H_
