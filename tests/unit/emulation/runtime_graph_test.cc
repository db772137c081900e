// Captures and graphs as a program sees them: cases that cuda_probe cannot check without a compiler
// for kernels, and cases specific to the emulation.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "emulation/include/mccs_emulation_kernel.h"
#include "tests/unit/eventually.h"

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*);
}

namespace runtime_graph_test {

void AddStub() {}
const void* const kAdd = reinterpret_cast<const void*>(&AddStub);

void Add(const MccsEmulatedLaunch* launch, void* const* arguments) {
  int* sum = *static_cast<int**>(arguments[0]);
  *sum += *static_cast<int*>(arguments[1]) * static_cast<int>(launch->grid[0]);
}

class RuntimeGraph : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    void** handle = __cudaRegisterFatBinary(nullptr);
    __cudaRegisterFunction(handle, static_cast<const char*>(kAdd), nullptr, "_Z3addPii", -1,
                           nullptr, nullptr, nullptr, nullptr, nullptr);
    const uint32_t bytes[] = {sizeof(int*), sizeof(int)};
    const MccsEmulatedKernel kernel{sizeof(MccsEmulatedKernel), "_Z3addPii", Add, 2, bytes, 0};
    ASSERT_EQ(mccsEmulationRegisterKernel(&kernel), 0);
  }
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&sum_), sizeof(int), 1), cudaSuccess);
    *sum_ = 0;
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaFree(sum_), cudaSuccess);
    cudaGetLastError();
  }
  int Launch(cudaGraphExec_t exec) {
    EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return *sum_;
  }

  cudaStream_t stream_ = nullptr;
  int* sum_ = nullptr;
};

TEST_F(RuntimeGraph, CapturedKernelsKeepTheirArguments) {
  int amount = 5;
  void* arguments[] = {&sum_, &amount};
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaLaunchKernel(kAdd, dim3(2), dim3(1), arguments, 0, stream_), cudaSuccess);
  amount = 1000;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(*sum_, 0);
  EXPECT_EQ(Launch(exec), 10);
  EXPECT_EQ(Launch(exec), 20);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaErrorInvalidValue);
}

TEST_F(RuntimeGraph, AKernelsParametersCanBeReadAndChanged) {
  int amount = 5;
  void* arguments[] = {&sum_, &amount};
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(kAdd);
  params.gridDim = dim3(3);
  params.blockDim = dim3(1);
  params.kernelParams = arguments;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaKernelNodeParams reported{};
  ASSERT_EQ(cudaGraphKernelNodeGetParams(node, &reported), cudaSuccess);
  EXPECT_EQ(reported.gridDim.x, 3u);
  EXPECT_EQ(*static_cast<int*>(reported.kernelParams[1]), 5);
  int changed = 7;
  void* others[] = {&sum_, &changed};
  reported.kernelParams = others;
  ASSERT_EQ(cudaGraphExecKernelNodeSetParams(exec, node, &reported), cudaSuccess);
  EXPECT_EQ(Launch(exec), 21);
  ASSERT_EQ(cudaGraphNodeSetEnabled(exec, node, 0), cudaSuccess);
  EXPECT_EQ(Launch(exec), 21);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(RuntimeGraph, BatchesOfWordsAreOneNode) {
  void* memory = nullptr;
  ASSERT_EQ(cudaHostAlloc(&memory, 4096, cudaHostAllocMapped), cudaSuccess);
  auto* const words = static_cast<uint64_t*>(memory);
  words[0] = words[1] = 0;
  CUstreamBatchMemOpParams operations[2] = {};
  for (int i = 0; i < 2; ++i) {
    operations[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    operations[i].writeValue.address = reinterpret_cast<CUdeviceptr>(words + i);
    operations[i].writeValue.value64 = 40 + i;
  }
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cuStreamBatchMemOp(stream_, 2, operations, 0), CUDA_SUCCESS);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  CUgraphNode nodes[2] = {};
  size_t count = 2;
  ASSERT_EQ(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(nodes[1], nullptr);
  CUgraphNodeType type{};
  ASSERT_EQ(cuGraphNodeGetType(nodes[0], &type), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  Launch(exec);
  EXPECT_EQ(words[0], 40u);
  EXPECT_EQ(words[1], 41u);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(memory), cudaSuccess);
}

// A destructor may lock a mutex that the caller of cudaGraphDestroy holds.
TEST_F(RuntimeGraph, DestructorsDoNotRunInsideTheCallThatReleases) {
  struct State {
    std::mutex mutex;
    std::atomic<bool> destroyed{false};
  };
  static State state;
  const auto destroy = [](void*) {
    std::lock_guard lock(state.mutex);
    state.destroyed = true;
  };
  cudaUserObject_t object = nullptr;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaUserObjectCreate(&object, nullptr, destroy, 1, cudaUserObjectNoDestructorSync),
            cudaSuccess);
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove), cudaSuccess);
  {
    std::lock_guard lock(state.mutex);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_FALSE(state.destroyed);
  }
  ASSERT_TRUE(mccs::Eventually([] { return state.destroyed.load(); }));
  EXPECT_EQ(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
}

TEST_F(RuntimeGraph, ADestroyedCapturingStreamForbidsNothing) {
  cudaStream_t other = nullptr;
  void* device = nullptr;
  ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&device, 4096), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

}  // namespace runtime_graph_test
