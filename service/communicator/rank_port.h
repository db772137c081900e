// One local rank, as its communicator sees it. The frontend implements it over the tenant's shared
// memory and socket; the simulator's tenants are served by the same code.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_RANK_PORT_H_
#define MCCS_SERVICE_COMMUNICATOR_RANK_PORT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/operation.h"
#include "service/executor/operation_binding.h"

namespace mccs {

// A call of this rank: checked, its buffers resolved to the daemon's addresses.
struct PostedOperation {
  OpKind kind = OpKind::kNone;
  DataType type = DataType::kInt8;
  ReduceOp redop = ReduceOp::kSum;
  Rank root;
  uint64_t count = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  // kPreMulSum: this rank's factor, a value of `type`; in the low bytes of `scalar`, or where
  // scalar_address says, at any alignment. Ranks may differ in it.
  uint64_t scalar = 0;
  const std::byte* scalar_address = nullptr;
};

class RankPort {
 public:
  virtual ~RankPort() = default;

  // The oldest call that is not complete; null when there is none. An error is a record that cannot
  // be served: the tenant's fault.
  // LIFETIME: the operation and its buffers until Complete(), or until LetGo().
  virtual absl::StatusOr<const PostedOperation*> Front() = 0;
  // The streams have reached the call: its inputs are there. REQUIRES: Front() gave a call.
  virtual bool FrontReady() = 0;
  // The call is done: the tenant's streams go on. REQUIRES: Front() gave a call.
  virtual void Complete() = 0;

  // Answers the rank's CommInit, once: OK when operations may be posted.
  virtual void InitDone(const absl::Status& status, CommId id) = 0;
  // Nothing more will succeed: tells the rank why and releases its streams. At most once.
  virtual void Fail(const absl::Status& why) = 0;
  // Ends what Communicator::Leave began: neither the port nor its buffers are used any more.
  virtual void LetGo() = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_RANK_PORT_H_
