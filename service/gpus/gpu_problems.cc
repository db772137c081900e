#include "service/gpus/gpu_problems.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mccs {
namespace {

using agent::v1::GpuCondition;
using agent::v1::GpuSurvey;

constexpr size_t kPairsInALine = 3;

// 13000 or 80 as "13.0" or "8.0".
std::string CudaText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }
std::string CapabilityText(int capability) {
  return absl::StrCat(capability / 10, ".", capability % 10);
}

std::string GpusText(const std::vector<int>& gpus) {
  return absl::StrCat(gpus.size() == 1 ? "GPU " : "GPUs ", absl::StrJoin(gpus, ", "));
}

// The GPUs for which `text` is not empty, by that text.
std::map<std::string, std::vector<int>> Group(
    const GpuSurvey& survey, const std::function<std::string(const GpuCondition&)>& text) {
  std::map<std::string, std::vector<int>> groups;
  for (const GpuCondition& gpu : survey.gpus()) {
    if (std::string key = text(gpu); !key.empty()) groups[std::move(key)].push_back(gpu.index());
  }
  return groups;
}

void AddDriver(const GpuSurvey& survey, const GpuNeeds& needs, std::vector<std::string>* lines) {
  // A driver loads what any minor version of its CUDA compiled.
  if (survey.cuda_version() == 0 || survey.cuda_version() / 1000 >= needs.cuda_version / 1000)
    return;
  lines->push_back(absl::StrCat("driver ", survey.driver_version(), " supports CUDA ",
                                CudaText(survey.cuda_version()), ", but the kernels need CUDA ",
                                needs.cuda_version / 1000,
                                ": no communicator starts; update NVIDIA's driver"));
}

void AddCount(const GpuSurvey& survey, const GpuNeeds& needs, std::vector<std::string>* lines) {
  if (survey.gpus_size() == needs.gpus) return;
  lines->push_back(absl::StrCat("the driver has ", survey.gpus_size(), " GPUs, but `gpus` is ",
                                needs.gpus,
                                " in mccsd's configuration; correct it, or repair the GPUs"));
}

void AddGpus(const GpuSurvey& survey, const GpuNeeds& needs, std::vector<std::string>* lines) {
  for (const auto& [error, gpus] :
       Group(survey, [](const GpuCondition& gpu) { return gpu.error(); })) {
    lines->push_back(absl::StrCat(GpusText(gpus), " cannot be read (", error,
                                  "): see `dmesg` for Xid errors; reset the GPU or restart the "
                                  "host"));
  }
  for (const auto& [capability, gpus] : Group(survey, [&](const GpuCondition& gpu) {
         const int has = gpu.compute_capability();
         return has != 0 && has < needs.compute_capability ? CapabilityText(has) : std::string();
       })) {
    lines->push_back(absl::StrCat(GpusText(gpus), ": compute capability ", capability,
                                  ", but the kernels need ",
                                  CapabilityText(needs.compute_capability),
                                  ": no communicator starts there; use newer GPUs"));
  }
  for (const auto& [mode, gpus] :
       Group(survey, [](const GpuCondition& gpu) { return gpu.compute_mode(); })) {
    const std::string remedy = absl::StrCat("; nvidia-smi -i ", absl::StrJoin(gpus, ","), " -c 0");
    if (mode == "prohibited") {
      lines->push_back(
          absl::StrCat(GpusText(gpus), ": compute mode prohibited: no program can use it", remedy));
    } else if (mode != "default") {
      lines->push_back(absl::StrCat(GpusText(gpus), ": compute mode ", mode,
                                    ": ranks of several processes cannot share a GPU", remedy));
    }
  }
  for (const auto& [mig, gpus] : Group(survey, [](const GpuCondition& gpu) { return gpu.mig(); })) {
    if (mig != "on") continue;
    lines->push_back(absl::StrCat(
        GpusText(gpus),
        ": MIG is on: a process gets one instance, without access to other GPUs, so collectives "
        "copy through host memory; nvidia-smi -i ",
        absl::StrJoin(gpus, ","), " -mig 0"));
  }
}

void AddPairs(const GpuSurvey& survey, std::vector<std::string>* lines) {
  std::map<std::string, std::vector<std::string>> by_cause;
  for (const agent::v1::GpuPair& pair : survey.without_access())
    by_cause[pair.cause()].push_back(absl::StrCat(pair.one(), "-", pair.other()));
  for (auto& [cause, pairs] : by_cause) {
    const size_t more = pairs.size() - std::min(pairs.size(), kPairsInALine);
    pairs.resize(pairs.size() - more);
    lines->push_back(absl::StrCat(
        "GPUs ", absl::StrJoin(pairs, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more"),
        ": no access to each other's memory (", cause,
        "): collectives on both copy through host memory; see `nvidia-smi topo -p2p r`"));
  }
}

}  // namespace

int LeastComputeCapability(std::string_view architectures) {
  constexpr std::string_view kPrefix = "sm_";
  int least = 0;
  for (size_t at = architectures.find(kPrefix); at != std::string_view::npos;
       at = architectures.find(kPrefix, at + 1)) {
    int number = 0;
    const char* const begin = architectures.data() + at + kPrefix.size();
    std::from_chars(begin, architectures.data() + architectures.size(), number);
    if (number > 0 && (least == 0 || number < least)) least = number;
  }
  return least;
}

std::vector<std::string> GpuProblems(const GpuSurvey& survey, const GpuNeeds& needs) {
  if (!survey.unreadable().empty()) {
    return {absl::StrCat("the GPUs cannot be read: ", survey.unreadable(),
                         "; install or repair NVIDIA's driver, until `nvidia-smi` works")};
  }
  std::vector<std::string> lines;
  AddDriver(survey, needs, &lines);
  AddCount(survey, needs, &lines);
  AddGpus(survey, needs, &lines);
  AddPairs(survey, &lines);
  return lines;
}

void AddGpuProblems(const GpuNeeds& needs, GpuSurvey* survey) {
  for (std::string& problem : GpuProblems(*survey, needs)) survey->add_problems(std::move(problem));
}

std::string DescribeGpus(const GpuSurvey& survey) {
  if (survey.gpus_size() == 0) return "none";
  const auto groups = Group(survey, [](const GpuCondition& gpu) {
    return gpu.name().empty() ? std::string("unknown GPU") : gpu.name();
  });
  std::vector<std::string> parts;
  for (const auto& [name, gpus] : groups) parts.push_back(absl::StrCat(gpus.size(), " × ", name));
  std::string text = absl::StrJoin(parts, ", ");
  if (!survey.driver_version().empty())
    absl::StrAppend(&text, ", driver ", survey.driver_version());
  if (survey.cuda_version() != 0)
    absl::StrAppend(&text, " (CUDA ", CudaText(survey.cuda_version()), ")");
  return text;
}

std::string RenderGpuSurvey(const GpuSurvey& survey) {
  std::string text = absl::StrCat("GPUs: ", DescribeGpus(survey), "\n");
  for (const GpuCondition& gpu : survey.gpus()) {
    absl::StrAppend(&text, "  ", gpu.index(), "  ", gpu.bus_id(), "  ", gpu.name());
    if (gpu.compute_capability() != 0)
      absl::StrAppend(&text, "  compute capability ", CapabilityText(gpu.compute_capability()));
    if (!gpu.compute_mode().empty()) absl::StrAppend(&text, "  compute mode ", gpu.compute_mode());
    if (!gpu.mig().empty()) absl::StrAppend(&text, "  MIG ", gpu.mig());
    absl::StrAppend(&text, "\n");
  }
  if (survey.problems().empty()) return text + "no problem found\n";
  for (const std::string& problem : survey.problems())
    absl::StrAppend(&text, "problem: ", problem, "\n");
  return text;
}

}  // namespace mccs
