// The fake CUDA's captures and graphs.
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/unit/shim/fake_cuda.h"
#include "tests/unit/shim/fake_cuda_world.h"

namespace mccs::fake_cuda {

void BeginCapture(CUstream stream) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  auto graph =
      std::make_shared<Graph>(Graph{.capture = world.next_id++, .nodes = {}, .objects = {}});
  world.graphs[reinterpret_cast<CUgraph>(graph.get())] = graph;
  world.captures[stream] = std::move(graph);
}

void JoinCapture(CUstream joining, CUstream captured) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.captures[joining] = world.captures.at(captured);
}

CUgraph EndCapture(CUstream stream) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  const std::shared_ptr<Graph> graph = world.captures.at(stream);
  std::erase_if(world.captures, [&](const auto& entry) { return entry.second == graph; });
  return reinterpret_cast<CUgraph>(graph.get());
}

void InvalidateCapture(CUstream stream) { TheWorld().captures.at(stream)->valid = false; }

void Launch(CUgraph graph, CUstream stream) {
  for (const Queued& node : NodesOf(graph)) Enqueue(stream, node);
}

std::vector<Queued> NodesOf(CUgraph graph) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  return world.graphs.at(graph)->nodes;
}

void DestroyGraph(CUgraph handle) {
  World& world = TheWorld();
  std::vector<std::pair<CUhostFn, void*>> objects;
  {
    std::lock_guard lock(world.mutex);
    objects = world.graphs.at(handle)->objects;
    world.graphs.erase(handle);
  }
  for (const auto& [destroy, pointer] : objects) destroy(pointer);
}

}  // namespace mccs::fake_cuda

using mccs::fake_cuda::TheWorld;
using mccs::fake_cuda::World;

extern "C" {

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                CUgraph* graph, const CUgraphNode**, const CUgraphEdgeData**,
                                size_t*) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  const auto capture = world.captures.find(stream);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (capture == world.captures.end()) return CUDA_SUCCESS;
  *status = capture->second->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                   : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  *id = capture->second->capture;
  *graph = reinterpret_cast<CUgraph>(capture->second.get());
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  cuuint64_t id;
  CUgraph graph;
  return cuStreamGetCaptureInfo(stream, status, &id, &graph, nullptr, nullptr, nullptr);
}

// A user object is handed to its graph at once, so its one reference moves to the graph.
CUresult cuUserObjectCreate(CUuserObject* object, void* pointer, CUhostFn destroy, unsigned,
                            unsigned) {
  *object = reinterpret_cast<CUuserObject>(new std::pair(destroy, pointer));
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned) {
  const std::unique_ptr<std::pair<CUhostFn, void*>> owned(
      reinterpret_cast<std::pair<CUhostFn, void*>*>(object));
  owned->first(owned->second);
  return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned, unsigned) {
  const std::unique_ptr<std::pair<CUhostFn, void*>> owned(
      reinterpret_cast<std::pair<CUhostFn, void*>*>(object));
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.graphs.at(graph)->objects.push_back(*owned);
  return CUDA_SUCCESS;
}

}  // extern "C"
