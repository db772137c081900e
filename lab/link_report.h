// Output of `mccs-lab links`: one line for each link and direction.
#ifndef MCCS_LAB_LINK_REPORT_H_
#define MCCS_LAB_LINK_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mccs::lab {

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

#endif  // MCCS_LAB_LINK_REPORT_H_
