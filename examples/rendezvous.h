// How the processes of a job find each other: torchrun's variables, and one TCP exchange that
// carries rank 0's unique id to everybody.
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

// Where no variable is set, the process is alone: rank 0 of 1. Ends the program with a text when
// they contradict each other.
JobPlace ReadJobPlace();

// The same id in every process: rank 0 makes it and serves it at the master's address, the others
// fetch it there. Blocks until all have it; ends the program with a text when that takes longer
// than a minute.
ncclUniqueId ExchangeUniqueId(const JobPlace& place);

#endif  // EXAMPLES_RENDEZVOUS_H_
