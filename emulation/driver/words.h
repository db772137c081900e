// Words that streams and graphs write and wait for.
#ifndef MCCS_EMULATION_DRIVER_WORDS_H_
#define MCCS_EMULATION_DRIVER_WORDS_H_

#include "emulation/core/graph.h"
#include "emulation/driver/entry.h"

namespace mccs::emulation {

// Checks the operations of a batch and makes them ready to run.
CUresult MakeWordOperations(const Session& session, unsigned count,
                            const CUstreamBatchMemOpParams* asked, unsigned flags,
                            WordOperations* operations);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_DRIVER_WORDS_H_
