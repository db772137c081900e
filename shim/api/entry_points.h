// The library's exported names: one jump for each NCCL function, through a table.
//
//   ncclX, pncclX:  jmp *target[X]         target[X]: at first, "ask ChooseTarget, then jump";
//                                          later our function or the real library's
//
// A jump is independent of the signature, so calls of any function can be redirected, also those of
// newer headers. The first call of each function asks for its target. Arguments pass through
// unchanged (NCCL's functions take none in floating point).
#ifndef MCCS_SHIM_API_ENTRY_POINTS_H_
#define MCCS_SHIM_API_ENTRY_POINTS_H_

#include "shim/own_names.h"

namespace mccs::shim {

using Target = void (*)();  // of any signature

// Sets the target of later calls of this function. THREAD: any; running calls are not affected.
void SetTarget(EntryNumber entry, Target target);

// This library's implementation.
Target OwnTarget(EntryNumber entry);

// A target that fails every call with an error message, by ReportMissing; for functions that return
// ncclResult_t.
Target MissingTarget(EntryNumber entry);

// "ncclAllReduce".
const char* NameOf(EntryNumber entry);

// Defined by fallback.cc. The target of this call, for a function without a target.
Target ChooseTarget(EntryNumber entry);
// The result of a call to a function that the real library lacks.
int ReportMissing(EntryNumber entry);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_API_ENTRY_POINTS_H_
