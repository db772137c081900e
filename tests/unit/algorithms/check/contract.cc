#include "tests/unit/algorithms/check/contract.h"

namespace mccs::check {

bool HasContract(OpKind kind) {
  switch (kind) {
    case OpKind::kAllGather:
    case OpKind::kBroadcast:
    case OpKind::kAllToAll:
    case OpKind::kGather:
    case OpKind::kScatter:
      return true;
    default:
      return Reduces(kind);
  }
}

bool HasInPlaceForm(OpKind kind) { return kind != OpKind::kAllToAll; }

bool ProvidesInput(const Plan& plan, Rank rank, int32_t block) {
  switch (plan.key.kind) {
    case OpKind::kAllGather:
    case OpKind::kGather:
      return rank.value() == block;
    case OpKind::kBroadcast:
    case OpKind::kScatter:
      return rank == plan.key.root;
    default:
      return true;
  }
}

bool RequiresOutput(const Plan& plan, Rank rank, int32_t block) {
  switch (plan.key.kind) {
    case OpKind::kReduceScatter:
    case OpKind::kScatter:
      return rank.value() == block;
    case OpKind::kReduce:
    case OpKind::kGather:
      return rank == plan.key.root;
    default:
      return true;
  }
}

InputBlock SourceOf(const Plan& plan, Rank rank, int32_t block) {
  switch (plan.key.kind) {
    case OpKind::kAllToAll:
      return {Rank(block), rank.value()};
    case OpKind::kAllGather:
    case OpKind::kGather:
      return {Rank(block), block};
    default:
      return {plan.key.root, block};
  }
}

}  // namespace mccs::check
