// The rendezvous of a job's processes: torchrun's variables, and one TCP exchange that sends rank
// 0's unique id to all ranks.
#ifndef EXAMPLES_RENDEZVOUS_H_
#define EXAMPLES_RENDEZVOUS_H_

#include <string>

#include "nccl.h"

struct JobPlace {
  int rank = 0;                              // RANK
  int world_size = 1;                        // WORLD_SIZE
  int local_rank = 0;                        // LOCAL_RANK
  std::string master_address = "127.0.0.1";  // MASTER_ADDR
  std::string master_port;                   // MASTER_PORT
};

// Without variables, the process is rank 0 of 1. Ends the program with an error message if the
// variables contradict each other.
JobPlace ReadJobPlace();

// Returns the same id in every process: rank 0 creates it and serves it at the master's address;
// the others fetch it there. Blocks until all have it; ends the program with an error message after
// a minute.
ncclUniqueId ExchangeUniqueId(const JobPlace& place);

#endif  // EXAMPLES_RENDEZVOUS_H_
