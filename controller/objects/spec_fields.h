// Fields of specs that several kinds of objects share: lists of unique names, and numbers in a
// form that is short and parsed back to exactly the same value.
#ifndef MCCS_CONTROLLER_OBJECTS_SPEC_FIELDS_H_
#define MCCS_CONTROLLER_OBJECTS_SPEC_FIELDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml_config.h"

namespace mccs {

// In the order of the document. Finish() reports empty and duplicate names.
std::vector<std::string> ReadUniqueList(YamlReader* yaml, std::string_view key);

// "64 GiB", "1000001".
std::string ExactBytes(uint64_t bytes);

// "187.5 Mbit/s", "1234567891 bit/s".
std::string ExactBitRate(uint64_t bits_per_second);

// In the fewest digits that parse back as `value`: "2", "0.1".
std::string ExactNumber(double value);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_SPEC_FIELDS_H_
