// Reads the GPUs of this host by NVML, which needs no CUDA context.
//
// NVML may hang or crash with a sick GPU, so mccsd runs this in a process of its own
// (service/gpus/child_gpu_reader.h).
//
// THREAD: any. Blocks for as long as the driver does.
#ifndef MCCS_SERVICE_GPUS_NVML_SURVEY_H_
#define MCCS_SERVICE_GPUS_NVML_SURVEY_H_

#include "proto/agent.pb.h"

namespace mccs {

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

// Loads `library` and reads what GpuSurvey has except `problems`. If NVML cannot be used,
// `unreadable` has the reason; if one GPU cannot be read, its `error`. What an older NVML does not
// report is left out.
agent::v1::GpuSurvey SurveyByNvml(const char* library);

}  // namespace mccs

#endif  // MCCS_SERVICE_GPUS_NVML_SURVEY_H_
