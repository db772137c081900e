// The local ranks of a communicator whose collectives are run by kernels of their processes: which
// of them run the programs, and whether they can use each other's memory
// (docs/decisions/0066-kernels-of-tenants.md).
//
// Kernels of two processes on one GPU take turns in time slices, so one process's kernels run the
// programs of a GPU, and the streams of the other ranks wait without a kernel.
//
//   (made) ── Poll: every runner maps the probe of every other GPU ──► done ──► UseOf
//
// OWNER: the Communicator, from the roster on. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_KERNEL_RANKS_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_KERNEL_RANKS_H_

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "service/communicator/links/rank_port.h"
#include "service/device/gpu/gpu_address_space.h"

namespace mccs {

// For each local rank, the one that runs the programs of its GPU: itself, if no other rank uses the
// GPU; otherwise the first rank of the process that connected to the daemon first, so that all
// communicators of the same processes choose the same one.
std::vector<LocalIndex> ChooseRunners(std::span<const KernelPlace> places);

class KernelRanks {
 public:
  // By LocalIndex, with their ports. If a port has no kernels, no kernels run plans, and nothing is
  // to be done. LIFETIME: the ports outlive this, or at least its last Poll.
  explicit KernelRanks(std::span<const LocalRank> ranks);

  // Returns true if anything moved. Call again after answers of the processes.
  bool Poll();
  bool done() const { return pending_.empty(); }
  // For an error message: a process that has not answered. REQUIRES: !done().
  std::string DescribeMissing() const;

  // REQUIRES, for all below: done().
  KernelUse UseOf(LocalIndex rank) const;
  // By LocalIndex; empty: no kernels run plans.
  const std::vector<LocalIndex>& runners() const { return runners_; }
  // Why the buffers of collectives are staged in host memory; empty: they are not.
  const std::string& staged() const { return staged_; }

 private:
  // A runner, and a rank whose memory it has to map.
  struct Access {
    LocalIndex runner;
    LocalIndex owner;
  };

  GpuAddressSpace& ProcessOf(LocalIndex rank) const {
    return *processes_[static_cast<size_t>(rank.value())];
  }

  std::vector<Rank> ranks_;
  std::vector<GpuAddressSpace*> processes_;
  std::vector<LocalIndex> runners_;
  std::deque<Access> pending_;
  std::string staged_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_KERNEL_RANKS_H_
