// Paths of a lab's programs and libraries, which the build puts next to this program.
#ifndef MCCS_LAB_PRODUCTS_H_
#define MCCS_LAB_PRODUCTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mccs::lab {

// Absolute paths.
struct Products {
  std::string lab;  // this program
  std::string mccsd;
  std::string controller;
  std::string mccsctl;
  // LD_PRELOAD of tenants' programs, in order: the sanitizer's runtime, if any (it must be first),
  // libmccs-free-hooks.so (it must precede CUDA's libraries), the emulated CUDA, libnccl.so.2.
  std::vector<std::string> preload;
};

// kNotFound: the message names the missing file and how to build it.
absl::StatusOr<Products> FindProducts();

}  // namespace mccs::lab

#endif  // MCCS_LAB_PRODUCTS_H_
