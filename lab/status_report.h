// What `mccs-lab status` prints.
#ifndef MCCS_LAB_STATUS_REPORT_H_
#define MCCS_LAB_STATUS_REPORT_H_

#include <string>
#include <vector>

#include "lab/lab_state.h"

namespace mccs::lab {

// One line per daemon, with a heading; a line that says so where there is no lab.
std::string StatusTable(const std::vector<LabState>& labs);

// A list of labs.
std::string StatusJson(const std::vector<LabState>& labs);

}  // namespace mccs::lab

#endif  // MCCS_LAB_STATUS_REPORT_H_
