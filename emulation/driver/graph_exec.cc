// Executable graphs: instantiation, launch, update and destruction.

#include <optional>
#include <utility>

#include "emulation/driver/graph_actions.h"

namespace mccs::emulation {

// cuda.h maps these names to their newest version; this file defines each version by its own name.
#undef cuGraphInstantiate
#undef cuGraphExecUpdate

namespace {

constexpr unsigned long long kKnownFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                           CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                           CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult Instantiate(CUgraphExec* exec, CUgraph handle, unsigned long long flags) {
  MCCS_ENTER_CONTEXT(session);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<Graph> graph = graphs.graphs.Find(handle);
  if (graph == nullptr || !graph->TopologicalOrder()) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> source = graph->Clone();
  std::optional<GraphPlan> plan = BuildPlan(*source);
  if (!plan) {
    graphs.Retire(source, {});
    return CUDA_ERROR_INVALID_VALUE;
  }
  *exec = static_cast<CUgraphExec>(
      graphs.execs.Insert(std::make_shared<GraphExec>(std::move(*plan), std::move(source), flags)));
  return CUDA_SUCCESS;
}

std::vector<Point> EndsOf(const GraphExec& exec) {
  if (!exec.last_end()) return {};
  return {*exec.last_end()};
}

CUresult Launch(CUgraphExec handle, CUstream stream) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<GraphExec> exec = graphs.execs.Find(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (graphs.captures.active()) {
    const auto captured = graphs.captures.AddNodeIfCapturing(
        *found, [&] { return ChildGraph{Graph::AsChild(exec->source()->Clone())}; });
    if (captured) return *captured;
  }
  exec->Launch(session.process->engine, found);
  return CUDA_SUCCESS;
}

CUresult Upload(CUgraphExec handle, CUstream stream) {
  MCCS_ENTER_CONTEXT(session);
  if (session.process->graphs.execs.Find(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return session.FindStream(stream) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult InstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                               CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Instantiate(exec, graph, params->flags);
  params->hErrNode_out = nullptr;
  params->result_out =
      result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return Instantiate(exec, graph, flags);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                               size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes > 0) *log = '\0';
  return Instantiate(exec, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                            size_t log_bytes) {
  return cuGraphInstantiate_v2(exec, graph, error_node, log, log_bytes);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return InstantiateWithParams(exec, graph, params);
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return InstantiateWithParams(exec, graph, params);
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<GraphExec> exec = graphs.execs.Remove(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  graphs.Retire(exec->source(), EndsOf(*exec));  // running launches complete
  return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  MCCS_ENTER(session);
  const std::shared_ptr<GraphExec> exec = session.process->graphs.execs.Find(handle);
  if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags();
  return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle,
                              CUgraphExecUpdateResultInfo* info) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<GraphExec> exec = graphs.execs.Find(handle);
  const std::shared_ptr<Graph> graph = graphs.graphs.Find(graph_handle);
  if (exec == nullptr || graph == nullptr || info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const GraphNode* differing = nullptr;
  std::shared_ptr<Graph> retired;
  info->result = exec->Update(*graph, &differing, &retired);
  info->errorNode = HandleOf(const_cast<GraphNode*>(differing));
  info->errorFromNode = nullptr;
  if (retired != nullptr) graphs.Retire(retired, EndsOf(*exec));
  return info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                      : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* update_result) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
  if (error_node != nullptr) *error_node = info.errorNode;
  if (update_result != nullptr) *update_result = info.result;
  return result;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node_handle, unsigned int enabled) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<GraphExec> exec = graphs.execs.Find(handle);
  const std::shared_ptr<GraphNode> node = graphs.nodes.Find(node_handle);
  if (exec == nullptr || node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return exec->SetEnabled(node->id, enabled != 0) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node_handle, unsigned int* enabled) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<GraphExec> exec = graphs.execs.Find(handle);
  const std::shared_ptr<GraphNode> node = graphs.nodes.Find(node_handle);
  if (exec == nullptr || node == nullptr || enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<bool> found = exec->IsEnabled(node->id);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  *enabled = *found ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // extern "C"

MCCS_STREAM_CALL(cuGraphLaunch, Launch(exec, stream), CUgraphExec exec, CUstream stream)
MCCS_STREAM_CALL(cuGraphUpload, Upload(exec, stream), CUgraphExec exec, CUstream stream)

}  // namespace mccs::emulation
