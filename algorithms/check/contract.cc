#include "algorithms/check/contract.h"

namespace mccs::check {

bool HasContract(OpKind kind) {
  return Reduces(kind) || kind == OpKind::kAllGather || kind == OpKind::kBroadcast;
}

bool GivesInput(const Plan& plan, Rank rank, int32_t block) {
  switch (plan.key.kind) {
    case OpKind::kAllGather:
      return rank.value() == block;
    case OpKind::kBroadcast:
      return rank == plan.key.root;
    default:
      return true;
  }
}

bool GetsOutput(const Plan& plan, Rank rank, int32_t block) {
  switch (plan.key.kind) {
    case OpKind::kReduceScatter:
      return rank.value() == block;
    case OpKind::kReduce:
      return rank == plan.key.root;
    default:
      return true;
  }
}

}  // namespace mccs::check
