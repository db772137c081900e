// A random key that a program makes once and keeps in a file, which only its user can read.
#ifndef MCCS_TRUST_STORED_KEY_H_
#define MCCS_TRUST_STORED_KEY_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/random.h"

namespace mccs {

inline constexpr size_t kStoredKeyBytes = 32;

std::string MakeKey(Random& random);

// The key in the file, or a new one, which the file has from now on. kDataLoss: the file has no
// such key; other errors are the disk's. Errors name the path and the remedy. Blocks for the disk.
absl::StatusOr<std::string> ReadOrMakeKey(const std::string& path, Random& random);

}  // namespace mccs

#endif  // MCCS_TRUST_STORED_KEY_H_
