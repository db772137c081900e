// The order of the checks: first those that decide whether the design of the data path is possible,
// then its figures, then the others by name.

#include <algorithm>
#include <iterator>
#include <string_view>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr const char* kFirst[] = {
    "facts_of_device",
    "facts_of_sharing",
    // Kernels, counters and data.
    "counters_between_cpu_and_kernel",
    "kernel_awaits_word",
    "kernels_of_many_streams_meet",
    "kernels_meet_with_one_queue",
    "kernel_leaves_its_queue",
    "greatest_priority_beside_waits",
    // Buffers can be opened while operations run.
    "ipc_open_beside_kernel",
    "vmm_import_beside_kernel",
    "allocate_beside_kernel",
    "host_register_beside_kernel",
    "load_beside_kernel",
    "first_launch_beside_kernel",
    "release_beside_kernel",
    "create_beside_kernel",
    "launches_behind_kernel",
    // Several processes on one GPU.
    "processes_share_gpu",
    "counters_announce_gpu_memory",
    "counters_announce_virtual_memory",
    "counters_between_gpus",
    "word_after_copy_between_processes",
    "word_after_copy_between_gpus",
    "killed_process_leaves_no_kernel",
    // Graphs, NICs and other hosts.
    "graph_kernel_polls_words",
    "dma_buf_of_allocation",
    "dma_buf_of_part_of_a_page",
    "dma_buf_of_virtual_memory",
    "dma_buf_without_rdma_flag",
    "fabric_handles",
    // Figures.
    "cost_of_launch",
    "latency_of_launch",
    "round_trip_of_words",
    "bandwidth_of_copies",
    // The present fences and exports.
    "fences_across_processes",
    "fences_with_processor",
    "export_base_and_offset",
    "vmm_descriptors",
    "exit_with_waiting_stream",
    "forty_waits_beside_work",
    "readies_before_waits",
};

size_t RankOf(const Check& check) {
  const auto* found = std::find(std::begin(kFirst), std::end(kFirst), std::string_view(check.name));
  return static_cast<size_t>(found - std::begin(kFirst));
}

}  // namespace

std::vector<std::string> SortByImportance(std::vector<Check>* checks) {
  std::sort(checks->begin(), checks->end(), [](const Check& a, const Check& b) {
    const size_t rank_a = RankOf(a);
    const size_t rank_b = RankOf(b);
    return rank_a != rank_b ? rank_a < rank_b : std::string_view(a.name) < b.name;
  });
  std::vector<std::string> unknown;
  for (const std::string_view name : kFirst) {
    const bool known = std::any_of(checks->begin(), checks->end(),
                                   [&](const Check& check) { return name == check.name; });
    if (!known) unknown.emplace_back(name);
  }
  return unknown;
}

}  // namespace mccs::probe
