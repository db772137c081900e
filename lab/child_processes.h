// Reaps and kills child processes.
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

// Returns all children that have ended since the last call. Does not block.
std::vector<EndedChild> ReapChildren();

// The exit status as in a shell: the status, or 128 + the number of the signal that killed it.
int ExitStatusOf(int wait_status);

// "exited with status 3", "killed by signal 9".
std::string DescribeEnd(int wait_status);

// Makes this process the subreaper: descendants whose parent ends become its children, and
// KillDescendants finds them.
void AdoptOrphans();

// Kills all descendants of this process and waits for their end, a few seconds at most.
void KillDescendants();

}  // namespace mccs::lab

#endif  // MCCS_LAB_CHILD_PROCESSES_H_
