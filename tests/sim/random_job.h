// A job of the random world: a list of operations that its ranks call at their own pace, each on
// memory of its own, so that each can be checked by itself.
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
  // On some of `hosts`.
  RandomJob(SimWorld& world, const std::vector<int>& hosts, std::mt19937_64& random);

  enum class Outcome : uint8_t {
    kFormed,
    kRefused,  // a rank, or memory: why() is what the daemon says. All processes have ended.
    kWaits,    // for ever
  };
  Outcome Form();
  const std::string& why() const { return why_; }
  // Some rank calls what is next for it. False: every rank has called everything.
  bool PostOne(std::mt19937_64& random);
  bool AllPosted() const;

  // Ranks of this host call nothing more, as its daemon is dead, and others must fail.
  void Lose(int host);
  // Some process ends, as by SIGKILL; the others call what is left, and once more. REQUIRES:
  // running.
  void KillAProcess(std::mt19937_64& random);
  // An all-reduce that Check() does not know. REQUIRES: Check()ed, running.
  void PostOneMore();
  // No rank was lost, and it was not refused.
  bool running() const { return !lost_ && !ended_; }
  bool lost() const { return lost_; }
  MonotonicNs lost_at() const { return lost_at_; }
  // All ranks that are left know that the communicator failed. REQUIRES: lost.
  bool SurvivorsKnow() const { return WhoHopes().empty(); }
  std::string WhoHopes() const;  // a rank that does not; empty: there is none
  // Whoever started it ends the processes that are left.
  void End();
  bool ended() const { return ended_; }
  int ProcessesOn(int host) const;
  // Every rank whose host lives has done what it called, or knows that the communicator failed.
  bool Over() const;

  // What is wrong with the memory of its ranks; empty: nothing. REQUIRES: Over, running.
  std::string Check() const;
  CommId id() { return job_.rank(0).id; }
  const std::vector<int>& host_of_rank() const { return host_of_rank_; }
  uint64_t operations() const { return operations_.size(); }

 private:
  struct Operation {
    OpKind kind = OpKind::kAllReduce;  // kSend: a message
    uint64_t count = 0;
    uint64_t at = 0;  // elements from the start of both buffers
    int root = 0;     // or the sender
    int receiver = 0;
    bool in_place = false;
  };

  int ranks() const { return static_cast<int>(host_of_rank_.size()); }
  // Elements of both buffers that the operation has for itself.
  uint64_t Extent(const Operation& operation) const;
  bool TakesPart(const Operation& operation, int rank) const;
  void Post(const Operation& operation, int rank);
  // What element `i` of rank's part of the output must be.
  float Expected(const Operation& operation, int rank, uint64_t i) const;

  SimWorld& world_;
  const std::vector<int> host_of_rank_;
  std::vector<Operation> operations_;
  std::vector<size_t> next_;  // by rank
  std::vector<bool> alive_;   // likewise
  bool lost_ = false;
  MonotonicNs lost_at_ = 0;
  bool ended_ = false;
  std::string why_;
  SimJob job_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_JOB_H_
