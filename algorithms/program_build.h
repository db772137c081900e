// Inside of BuildPlan: a program that is built in short parts. The program of one of thousands of
// hosts takes milliseconds, and a host that builds it has other work to do.
//
// THREAD: one.
#ifndef MCCS_ALGORITHMS_PROGRAM_BUILD_H_
#define MCCS_ALGORITHMS_PROGRAM_BUILD_H_

#include <cstdint>
#include <utility>

#include "algorithms/host_ring.h"
#include "algorithms/plan.h"
#include "algorithms/plan_builder.h"

namespace mccs {

class ProgramBuild {
 public:
  virtual ~ProgramBuild() = default;

  virtual bool done() const = 0;
  // Appends some steps: at most those of a hop for one peer, or of one slice. REQUIRES: !done().
  virtual void BuildNext() = 0;
  // Of all steps so far (Program::parts).
  virtual uint64_t parts() const = 0;
  // REQUIRES: done().
  virtual Program Take() = 0;
};

// Shared by programs that take more than one part.
class ProgramInParts : public ProgramBuild {
 public:
  uint64_t parts() const final { return program_.parts(); }
  Program Take() final { return program_.Take(); }

 protected:
  // LIFETIME: what `ring` refers to outlives the build.
  explicit ProgramInParts(const Ring& ring, Packing packing = Packing::kNone)
      : ring_(ring), local_(ring_.local(), ring_.home()), program_(ring_.channel(), packing) {}

  const Ring ring_;
  const LocalRanks local_;
  ProgramBuilder program_;
};

// A program whose size does not depend on the number of hosts, or little.
class BuiltProgram final : public ProgramBuild {
 public:
  explicit BuiltProgram(Program program) : program_(std::move(program)) {}
  bool done() const override { return true; }
  void BuildNext() override {}
  uint64_t parts() const override { return program_.parts; }
  Program Take() override { return std::move(program_); }

 private:
  Program program_;
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PROGRAM_BUILD_H_
