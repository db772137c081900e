#include <gtest/gtest.h>

#include "tests/unit/golden.h"
#include "tests/unit/tools/traces.h"
#include "tools/mccsctl/trace_report.h"

namespace mccs {
namespace golden_trace_test {

TEST(GoldenTrace, Tables) {
  ExpectGolden("mccsctl_trace.txt",
               "$ mccsctl trace communicator 3f2a\n" + RenderTrace(TraceOfThreeHosts()));
}

}  // namespace golden_trace_test
}  // namespace mccs
