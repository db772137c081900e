// The library that the program has met: which, and what it exports beyond the header's functions.
#ifndef TESTS_CONFORMANCE_LIBRARY_H_
#define TESTS_CONFORMANCE_LIBRARY_H_

#include <string>

namespace conformance {

// The file that ncclGetVersion comes from.
std::string LibraryPath();
// "2.28.9"
std::string LibraryVersion();
// Whether LD_PRELOAD brought it.
bool LibraryIsPreloaded();

// A function that the header of this build may not have; null when the library lacks it.
void* FindFunction(const char* name);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_LIBRARY_H_
