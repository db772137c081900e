// Output of `mccs-lab status` and `mccs-lab links`: tables and JSON.
#ifndef MCCS_LAB_REPORTS_H_
#define MCCS_LAB_REPORTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/lab_state.h"

namespace mccs::lab {

// One line per daemon, with a heading; "no labs" if there are none.
std::string StatusTable(const std::vector<LabState>& labs);

// JSON array of labs.
std::string StatusJson(const std::vector<LabState>& labs);

struct LinkLine {
  std::string link;
  std::string from, to;
  uint64_t bytes = 0;  // sent by `from`, including all headers
  uint64_t rate_bps = 0;
  bool is_up = false;
};

std::string LinkTable(const std::vector<LinkLine>& lines);
std::string LinkJson(const std::vector<LinkLine>& lines);

}  // namespace mccs::lab

#endif  // MCCS_LAB_REPORTS_H_
