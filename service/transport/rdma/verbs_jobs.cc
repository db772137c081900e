#include "service/transport/rdma/verbs_jobs.h"

namespace mccs {
namespace {

constexpr int kDonePerPoll = 64;

}  // namespace

class VerbsJobs::Job final : public MappingJob {
 public:
  Job(const std::string& tenant, bool is_long, Call work, Call done)
      : MappingJob({.tenant = tenant, .process = 0}),
        moves_(is_long),
        work_(std::move(work)),
        done_(std::move(done)) {}

  Progress Step() override {
    if (std::exchange(moves_, false)) return Progress::kLong;
    work_();
    work_ = nullptr;  // what it holds ends here, too
    return Progress::kDone;
  }
  void Finish() override {
    if (done_) done_();
  }

 private:
  bool moves_;  // to the thread for long jobs
  Call work_;
  Call done_;
};

// A dropped job may be the last owner of an object, whose end is a job again.
VerbsJobs::~VerbsJobs() {
  runner_.reset();
  while (!done_.empty()) {
    const Call dropped = std::move(done_.front());
    done_.pop_front();
  }
}

void VerbsJobs::Run(Kind kind, const std::string& tenant, Call work, Call done) {
  if (runner_ == nullptr) {
    work();
    if (done) done_.push_back(std::move(done));
    return;
  }
  const auto lane = kind == Kind::kEnd ? MappingRunner::Lane::kUnmap : MappingRunner::Lane::kMap;
  runner_->Start(lane, std::make_unique<Job>(tenant, kind == Kind::kRegister, std::move(work),
                                             std::move(done)));
}

bool VerbsJobs::Poll() {
  bool any = false;
  for (int i = 0; i < kDonePerPoll; ++i) {
    if (runner_ != nullptr) {
      const std::unique_ptr<MappingJob> job = runner_->TakeFinished();
      if (job == nullptr) return any;
      job->Finish();
    } else {
      if (done_.empty()) return any;
      Call done = std::move(done_.front());
      done_.pop_front();
      done();
    }
    any = true;
  }
  return any;
}

}  // namespace mccs
