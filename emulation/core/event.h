// Events: what cuEventRecord and cuStreamWaitEvent hand to each other.
#ifndef MCCS_EMULATION_CORE_EVENT_H_
#define MCCS_EMULATION_CORE_EVENT_H_

#include <memory>
#include <mutex>
#include <vector>

#include "emulation/core/work.h"

namespace mccs::emulation {

struct Capture;
struct GraphNode;

// An event recorded in a capturing stream stands for nodes of the graph and not for work.
struct CapturedRecord {
  std::weak_ptr<Capture> capture;  // expired once that capture has ended
  std::vector<GraphNode*> nodes;
};

struct Event {
  unsigned flags = 0;
  int gpu = 0;
  std::mutex mutex;
  // Guarded. At most one of the two: the later one counts. Both null before the first record.
  std::shared_ptr<Record> last;
  std::shared_ptr<CapturedRecord> captured;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_EVENT_H_
