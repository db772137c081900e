// What becomes of processes that were started.
#ifndef MCCS_LAB_CHILD_PROCESSES_H_
#define MCCS_LAB_CHILD_PROCESSES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace mccs::lab {

struct EndedChild {
  pid_t pid = 0;
  int wait_status = 0;  // of waitpid
};

// All children that have ended since the last call. Does not block.
std::vector<EndedChild> ReapChildren();

// As a shell has it: the status, or 128 and the number of the signal that killed it.
int ExitStatusOf(int wait_status);

// "exited with status 3", "killed by signal 9".
std::string DescribeEnd(int wait_status);

// From now on, whoever loses a parent among our descendants becomes our child, and KillDescendants
// finds it.
void AdoptOrphans();

// Kills whatever still descends from this process and waits for it, at most a few seconds.
void KillDescendants();

}  // namespace mccs::lab

#endif  // MCCS_LAB_CHILD_PROCESSES_H_
