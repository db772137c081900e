// The function that libFuzzer calls with each input.
#include "tests/fuzz/targets/fuzz_target.h"

// NOLINTNEXTLINE: libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const mccs::FuzzTarget& target = *mccs::FuzzTarget::All().at(0);
  target.Run({data, size});
  return 0;
}
