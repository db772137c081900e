// Compares one thread's MemOps with the memory bandwidth limit (each source read once, each
// destination written once) and with memcpy.
//
// bytes_per_second counts the bytes that must be read and written. busbw (GB/s) is that of a local
// all-reduce with as many ranks as sources; n local ranks have n sources and n destinations.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "service/device/mapped_memory.h"
#include "service/device/mem_op.h"

namespace mccs {
namespace {

constexpr size_t kSliceBytes = 512 << 10;  // the executor's unit of large operations

// A normal number in every type. Unwritten memory would be one page of zeros, read from the cache.
constexpr int kContents = 0x3c;

struct Buffers {
  Buffers(size_t sources, size_t destinations, size_t bytes) {
    for (size_t k = 0; k < sources; ++k) in.push_back(Filled(bytes));
    for (size_t k = 0; k < destinations; ++k) out.push_back(Filled(bytes));
  }

  static std::unique_ptr<MappedMemory> Filled(size_t bytes) {
    std::unique_ptr<MappedMemory> memory = *MappedMemory::Anonymous(bytes);
    std::memset(memory->address(), kContents, bytes);
    return memory;
  }

  std::vector<std::unique_ptr<MappedMemory>> in, out;
};

struct Case {
  DataType type;
  ReduceOp op;
  bool scaled, in_place, stream;
};

void RunSlice(const Buffers& buffers, const Case& c, size_t begin, size_t bytes) {
  std::vector<MemSource> sources;
  std::vector<std::byte*> destinations;
  for (const auto& memory : buffers.in) {
    sources.push_back({.address = memory->address() + begin, .scaled = c.scaled, .scale_bits = 0});
  }
  for (const auto& memory : c.in_place ? buffers.in : buffers.out) {
    destinations.push_back(memory->address() + begin);
  }
  RunMemOp({.sources = sources,
            .destinations = destinations,
            .elements = bytes / SizeOf(c.type),
            .type = c.type,
            .op = c.op,
            .stream = c.stream});
}

void BM_AllReduce(benchmark::State& state, Case c) {
  const auto ranks = static_cast<size_t>(state.range(0));
  const auto bytes = static_cast<size_t>(state.range(1));
  const Buffers buffers(ranks, c.in_place ? 0 : ranks, bytes);
  for (auto _ : state) {
    for (size_t begin = 0; begin < bytes; begin += kSliceBytes) {
      RunSlice(buffers, c, begin, std::min(kSliceBytes, bytes - begin));
    }
    benchmark::ClobberMemory();
  }
  const double moved = static_cast<double>(state.iterations()) * static_cast<double>(bytes);
  state.SetBytesProcessed(static_cast<int64_t>(moved * 2 * static_cast<double>(ranks)));
  const double n = static_cast<double>(ranks);
  state.counters["busbw"] =
      benchmark::Counter(moved * 2 * (n - 1) / n / 1e9, benchmark::Counter::kIsRate);
}

void BM_Copy(benchmark::State& state, bool stream) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Buffers buffers(1, 1, bytes);
  const Case c{DataType::kFloat32, ReduceOp::kSum, false, false, stream};
  for (auto _ : state) {
    RunSlice(buffers, c, 0, bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(2 * bytes));
}

void BM_Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Buffers buffers(1, 1, bytes);
  for (auto _ : state) {
    std::memcpy(buffers.out[0]->address(), buffers.in[0]->address(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(2 * bytes));
}

constexpr int64_t k16MiB = 16 << 20;

void Register() {
  constexpr Case kFloat{DataType::kFloat32, ReduceOp::kSum, false, false, true};
  benchmark::RegisterBenchmark("memcpy", BM_Memcpy)->Arg(k16MiB)->Arg(4096);
  benchmark::RegisterBenchmark("copy", BM_Copy, false)->Arg(k16MiB)->Arg(4096);
  benchmark::RegisterBenchmark("copy_stream", BM_Copy, true)->Arg(k16MiB);
  const auto all_reduce = [](const std::string& name, Case c, std::vector<int64_t> ranks,
                             int64_t bytes) {
    for (const int64_t n : ranks) {
      benchmark::RegisterBenchmark(name.c_str(), BM_AllReduce, c)->Args({n, bytes});
    }
  };
  const auto with = [&](DataType type, ReduceOp op, bool scaled, bool in_place, bool stream) {
    return Case{type, op, scaled, in_place, stream};
  };
  all_reduce("float32_stream", kFloat, {2, 3, 4, 8, 16}, k16MiB);
  all_reduce("float32_cached", with(DataType::kFloat32, ReduceOp::kSum, false, false, false),
             {2, 4, 8}, k16MiB);
  all_reduce("float32_in_place", with(DataType::kFloat32, ReduceOp::kSum, false, true, false),
             {2, 4, 8, 16}, k16MiB);
  all_reduce("float32_in_place_stream", with(DataType::kFloat32, ReduceOp::kSum, false, true, true),
             {2, 4}, k16MiB);
  all_reduce("float32_scaled_stream", with(DataType::kFloat32, ReduceOp::kSum, true, false, true),
             {2}, k16MiB);
  all_reduce("float32", with(DataType::kFloat32, ReduceOp::kSum, false, false, false), {2}, 8);
  all_reduce("float32", with(DataType::kFloat32, ReduceOp::kSum, false, false, false), {2}, 16384);
  for (const DataType type : {DataType::kInt8, DataType::kInt64, DataType::kFloat16,
                              DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    all_reduce(std::string(Name(type)) + "_stream", with(type, ReduceOp::kSum, false, false, true),
               {2, 4}, k16MiB);
  }
  all_reduce("float32_max_stream", with(DataType::kFloat32, ReduceOp::kMax, false, false, true),
             {2}, k16MiB);
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  mccs::Register();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("instruction set", mccs::KernelTargetName());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
