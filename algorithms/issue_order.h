// In which order the steps of all rounds of one program are taken up: a wavefront.
//
// Step s of round r has the key r + skew × stage(s); smaller keys first, and among equal keys the
// younger round first, so that a lane always has a slice at hand that waits for nobody while an older
// round's answer is on its way. Both ends of a lane walk the same order (their programs have equal
// stages), so the k-th send of one is the k-th receive of the other.
#ifndef MCCS_ALGORITHMS_ISSUE_ORDER_H_
#define MCCS_ALGORITHMS_ISSUE_ORDER_H_

#include <cstdint>
#include <vector>

#include "algorithms/plan.h"

namespace mccs {

struct StepInstance {
  uint64_t round = 0;
  uint16_t step = 0;
};

// A cursor over the order. No allocation after construction.
class IssueOrder {
 public:
  // REQUIRES: `program` outlives the cursor.
  IssueOrder(const Program& program, uint64_t rounds, uint32_t skew);

  // False at the end.
  bool Next(StepInstance* out);

 private:
  const Program* program_;
  uint64_t rounds_;
  uint32_t skew_;
  uint64_t key_ = 0;     // the current key
  uint64_t last_key_ = 0;
  uint16_t position_ = 0;  // within the current key: steps in order of falling stage… see .cc
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_ISSUE_ORDER_H_
