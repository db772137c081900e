// The names that the library shows: one jump for each function of NCCL, through a table.
//
//   ncclX, pncclX:  jmp *target[X]         target[X]: at first, "ask ChooseTarget, then go there";
//                                          later our own function or the real library's
//
// A jump knows no signature, so every function can be sent elsewhere, also those of newer headers.
// The first call of each function asks; arguments pass through untouched (NCCL's functions take
// none in floating point).
#ifndef MCCS_SHIM_ENTRY_POINTS_H_
#define MCCS_SHIM_ENTRY_POINTS_H_

#include "shim/own_names.h"

namespace mccs::shim {

using Target = void (*)();  // of whatever signature

// Where calls of this function go from now on. THREAD: any; a call under way is not held up.
void SetTarget(EntryNumber entry, Target target);

// This library's own function.
Target OwnTarget(EntryNumber entry);

// One that refuses every call with a text by way of RefuseMissing; for functions that return
// ncclResult_t.
Target MissingTarget(EntryNumber entry);

// "ncclAllReduce".
const char* NameOf(EntryNumber entry);

// Defined by fallback.cc. Where this call of a function without a target shall go.
Target ChooseTarget(EntryNumber entry);
// What a call of a function that is missing in the real library returns.
int RefuseMissing(EntryNumber entry);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_ENTRY_POINTS_H_
