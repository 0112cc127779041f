// How Python calls the library: every function takes arrays of sizes, addresses and numbers, and
// how many threads it may use. Knows nothing of what they compute.
#pragma once
#include <new>

#include "vector.h"

namespace dwindle {

struct Arguments {
  const Index* sizes;
  void** arrays;
  const double* numbers;
  Index threads;
};

// 0, or 1 if there is no memory: an exception must not leave C++.
inline int outcome(void (*function)(const Arguments&), const Arguments& given) {
  try {
    function(given);
  } catch (const std::bad_alloc&) {
    return 1;
  }
  return 0;
}

}  // namespace dwindle

// name_type: `function` for arrays of that type. functions.py calls it.
#define EXPORT(name, type, function)                                                              \
  extern "C" int name##_##type(const dwindle::Index* sizes, void** arrays, const double* numbers, \
                               dwindle::Index threads) {                                          \
    return dwindle::outcome(function, {sizes, arrays, numbers, threads});                         \
  }
