// Events: the state that cuEventRecord writes and cuStreamWaitEvent reads.
#ifndef MCCS_EMULATION_CORE_EVENT_H_
#define MCCS_EMULATION_CORE_EVENT_H_

#include <memory>
#include <mutex>
#include <vector>

#include "emulation/core/work.h"

namespace mccs::emulation {

struct Capture;
struct GraphNode;

// An event recorded in a capturing stream refers to nodes of the graph instead of work.
struct CapturedRecord {
  std::weak_ptr<Capture> capture;  // expired once that capture has ended
  std::vector<GraphNode*> nodes;
};

struct Event {
  unsigned flags = 0;
  int gpu = 0;
  std::mutex mutex;
  // Guarded by `mutex`. At most one of the two is set: the latest record. Both null before the
  // first.
  std::shared_ptr<Record> last;
  std::shared_ptr<CapturedRecord> captured;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_EVENT_H_
