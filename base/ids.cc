#include "base/ids.h"

#include <cinttypes>
#include <cstdio>

namespace mccs {

std::string FormatCommId(CommId id) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, id.value());
  return text;
}

}  // namespace mccs
