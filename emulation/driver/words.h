// Words that streams and graphs write and wait for.
#ifndef MCCS_EMULATION_DRIVER_WORDS_H_
#define MCCS_EMULATION_DRIVER_WORDS_H_

#include "emulation/core/graph.h"
#include "emulation/driver/entry.h"

namespace mccs::emulation {

// Checks the operations of a batch and converts them to work.
CUresult MakeWordOperations(const CallContext& session, unsigned count,
                            const CUstreamBatchMemOpParams* requested, unsigned flags,
                            WordOperations* operations);

// Makes the wait of a kernel that watches a word of 64 bits until it has reached `value`.
CUresult MakeWatch(const CallContext& session, CUdeviceptr address, uint64_t value,
                   WaitWord* watch);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_DRIVER_WORDS_H_
