// User objects, and graphs' references to them.

#include "emulation/driver/graph_handles.h"

using mccs::emulation::Graph;
using mccs::emulation::GraphState;
using mccs::emulation::UserObject;

extern "C" {

CUresult cuUserObjectCreate(CUuserObject* handle, void* pointer, CUhostFn destroy,
                            unsigned int references, unsigned int flags) {
  MCCS_ENTER(session);
  if (handle == nullptr || destroy == nullptr || references == 0 ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto object = std::make_shared<UserObject>();
  object->pointer = pointer;
  object->destroy = destroy;
  object->references = references;
  *handle = static_cast<CUuserObject>(session.process->graphs.user_objects.Insert(object));
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  MCCS_ENTER(session);
  const auto object = session.process->graphs.user_objects.Find(handle);
  if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  object->references.fetch_add(count);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const auto object = graphs.user_objects.Find(handle);
  if (object == nullptr || count == 0 || object->references.load() < count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graphs.Release(object, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count,
                                 unsigned int flags) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<Graph> graph = graphs.graphs.Find(graph_handle);
  const auto object = graphs.user_objects.Find(handle);
  if (graph == nullptr || object == nullptr || count == 0 ||
      (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Moved references belong to the caller, who has counted them already.
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) object->references.fetch_add(count);
  graph->objects().Add(object, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<Graph> graph = graphs.graphs.Find(graph_handle);
  const auto object = graphs.user_objects.Find(handle);
  if (graph == nullptr || object == nullptr || !graph->objects().Remove(object, count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graphs.Release(object, count);
  return CUDA_SUCCESS;
}

}  // extern "C"
