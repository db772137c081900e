// The hostile parties of one random world: when they come, act and go, and whether anything of them
// stays.
#ifndef MCCS_TESTS_SIM_RANDOM_LIARS_H_
#define MCCS_TESTS_SIM_RANDOM_LIARS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/sim/liar.h"

namespace mccs {

class RandomLiars {
 public:
  // LIFETIME: `world` and `counts` outlive it, and the world runs no more when it is gone.
  RandomLiars(SimWorld& world, uint64_t seed, RandomCounts& counts);

  // One may come to some of these hosts, and each may do something.
  void Act(const std::vector<int>& hosts);
  // The daemon of a host is no more.
  void Lose(int host);
  // All go, and no other comes.
  void Leave();

  // Connections, processes, communicators and buffers of theirs that some daemon still has; empty:
  // none. REQUIRES: they left.
  std::string WhatIsLeft() const;
  // What they got hold of that is not theirs; empty: nothing.
  std::string Wrong() const;

 private:
  SimWorld& world_;
  RandomCounts& counts_;
  Dice dice_;
  uint64_t expected_;  // that may come yet
  std::deque<Liar> liars_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_LIARS_H_
