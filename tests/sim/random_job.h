// A job of the random world: a list of operations that its ranks call at their own limits. Each
// operation has its own memory, so that each can be checked by itself.
#ifndef MCCS_TESTS_SIM_RANDOM_JOB_H_
#define MCCS_TESTS_SIM_RANDOM_JOB_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/sim_job.h"

namespace mccs {

class RandomJob {
 public:
  // Places its ranks on some of `hosts`.
  RandomJob(SimWorld& world, const std::vector<int>& hosts, std::mt19937_64& random);

  enum class Outcome : uint8_t {
    kFormed,
    kRejected,  // a rank or a buffer; why(): the daemon's error. All processes have ended.
    kTimedOut,  // no answer in time
  };
  Outcome Form();
  const std::string& why() const { return why_; }
  bool formed() const { return formed_; }
  // Posts the next operation of some rank. False: every rank has posted everything.
  bool PostOne(std::mt19937_64& random);
  bool AllPosted() const;

  // The daemon of `host` has died: ranks of this host call nothing more, and the others must fail.
  void OnDaemonDied(int host);
  // Kills one process, as by SIGKILL; the others post their remaining calls and one more. REQUIRES:
  // running.
  void KillProcess(std::mt19937_64& random);
  // Posts an all-reduce that Check() does not cover. REQUIRES: Check()ed, running.
  void PostOneMore();
  // Why a rank failed; empty: none has.
  std::string FindFailure() const;
  // It met a fault that explains its failure: from now on the others must fail, as if it had lost a
  // rank. REQUIRES: running.
  void FailByFault();
  // It has lost no rank and has not ended.
  bool running() const { return !lost_ && !ended_; }
  bool lost() const { return lost_; }
  bool failed_by_fault() const { return failed_by_fault_; }
  MonotonicNs lost_at() const { return lost_at_; }
  // All remaining ranks know that the communicator failed. REQUIRES: lost.
  bool AllSurvivorsFailed() const { return FindUnawareSurvivor().empty(); }
  std::string FindUnawareSurvivor() const;  // a remaining rank that does not know; empty: none
  // Kills the remaining processes.
  void End();
  bool ended() const { return ended_; }
  int ProcessesOn(int host) const;
  // Every rank on a live host has completed its calls or knows that the communicator failed.
  bool IsFinished() const;

  // The first wrong result in the ranks' memory; empty: none. REQUIRES: IsFinished, running.
  std::string Check() const;
  CommId id() { return job_.rank(0).id; }
  const std::vector<int>& host_of_rank() const { return host_of_rank_; }
  uint64_t operations() const { return operations_.size(); }

 private:
  struct Operation {
    OpKind kind = OpKind::kAllReduce;  // kSend: a message
    uint64_t count = 0;
    uint64_t at = 0;  // first element in both buffers
    int root = 0;     // or the sender
    int receiver = 0;
    bool in_place = false;
  };

  bool HasFailed(int rank) const;
  int ranks() const { return static_cast<int>(host_of_rank_.size()); }
  // Number of elements of both buffers that the operation has for itself.
  uint64_t Extent(const Operation& operation) const;
  bool TakesPart(const Operation& operation, int rank) const;
  void Post(const Operation& operation, int rank);
  // The expected value of element `i` of the rank's part of the output.
  float Expected(const Operation& operation, int rank, uint64_t i) const;

  SimWorld& world_;
  const std::vector<int> host_of_rank_;
  std::vector<Operation> operations_;
  std::vector<size_t> next_;  // by rank
  std::vector<bool> alive_;   // by rank
  bool formed_ = false;
  bool lost_ = false;
  bool failed_by_fault_ = false;
  MonotonicNs lost_at_ = 0;
  bool ended_ = false;
  std::string why_;
  SimJob job_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_JOB_H_
