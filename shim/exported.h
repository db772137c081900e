// What makes a function part of the library's surface. Every function exists twice: the strong
// pncclX is ours, the weak ncclX is another name of it that a profiler may replace.
#ifndef MCCS_SHIM_EXPORTED_H_
#define MCCS_SHIM_EXPORTED_H_

#define MCCS_EXPORT extern "C" __attribute__((visibility("default")))
#define MCCS_ALSO_WEAK(name) \
  extern "C" __attribute__((visibility("default"), weak, alias("p" #name))) decltype(p##name) name

#endif  // MCCS_SHIM_EXPORTED_H_
