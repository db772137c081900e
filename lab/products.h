// Where the build put the programs and libraries that a lab consists of: beside this program.
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
  // What a tenant's program is started with, in the order of LD_PRELOAD: the sanitizer's runtime
  // where this build has one (it insists on being first), our libmccs-frees.so (which stands in
  // front of CUDA's), the emulated CUDA, our libnccl.so.2.
  std::vector<std::string> preload;
};

// kNotFound names what is missing and how it is built.
absl::StatusOr<Products> FindProducts();

}  // namespace mccs::lab

#endif  // MCCS_LAB_PRODUCTS_H_
