// Writes a program as kernels run it (kernels/program.h).
//
// THREAD: any. Pure.
#ifndef MCCS_SERVICE_DEVICE_GPU_PROGRAM_IMAGE_H_
#define MCCS_SERVICE_DEVICE_GPU_PROGRAM_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/plan.h"
#include "service/device/lane_shape.h"
#include "service/device/program_facts.h"

namespace mccs {

// `facts`: of the program. `skew`: of its IssueOrder.
std::vector<std::byte> MakeProgramImage(const Plan& plan, const Program& program,
                                        const ProgramFacts& facts, const LaneShape& shape,
                                        uint32_t skew);

// Its size in bytes, at most, without making it.
uint64_t MostImageBytes(const Program& program);

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_PROGRAM_IMAGE_H_
