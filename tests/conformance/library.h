// The NCCL library of this process: its file, version, and functions that the header lacks.
#ifndef TESTS_CONFORMANCE_LIBRARY_H_
#define TESTS_CONFORMANCE_LIBRARY_H_

#include <string>

namespace conformance {

// The file that defines ncclGetVersion.
std::string LibraryPath();
// "2.28.9"
std::string LibraryVersion();
// Whether it was loaded by LD_PRELOAD.
bool LibraryIsPreloaded();

// Looks up a function that the header of this build may lack; null if the library lacks it.
void* FindFunction(const char* name);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_LIBRARY_H_
