// Formats `mccsctl explain` as tables. Pure.
#ifndef MCCS_TOOLS_MCCSCTL_RENDER_EXPLANATION_H_
#define MCCS_TOOLS_MCCSCTL_RENDER_EXPLANATION_H_

#include <string>

#include "proto/operator.pb.h"

namespace mccs {

std::string RenderExplanation(const control::v1::Explanation& explanation);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_RENDER_EXPLANATION_H_
