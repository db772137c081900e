// Output of `mccs-lab status`.
#ifndef MCCS_LAB_STATUS_REPORT_H_
#define MCCS_LAB_STATUS_REPORT_H_

#include <string>
#include <vector>

#include "lab/lab_state.h"

namespace mccs::lab {

// One line per daemon, with a heading; "no labs" if there are none.
std::string StatusTable(const std::vector<LabState>& labs);

// JSON array of labs.
std::string StatusJson(const std::vector<LabState>& labs);

}  // namespace mccs::lab

#endif  // MCCS_LAB_STATUS_REPORT_H_
