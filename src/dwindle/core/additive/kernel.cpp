// The functions that energies.py calls: it owns the tensors, energies.h does the work.
#include "energies.h"

namespace dwindle::additive {
namespace {

// Sizes: sources, queries of each, positions, columns. Arrays: as the structure has them.
template <class C> Source<C> source(const Index* sizes, void** a) {
  return {sizes[0], sizes[1], sizes[2], sizes[3], (const C*)a[0], (const C*)a[1], (const C*)a[2],
          (const C*)a[3], (const C*)a[4], (const C*)a[5], (const std::uint8_t*)a[6]};
}

}  // namespace
}  // namespace dwindle::additive

#define FUNCTIONS(C, suffix)                                                                                           \
  extern "C" void energies_##suffix(const dwindle::Index* sizes, void** a, const double*, dwindle::Index threads) {    \
    dwindle::additive::energies(dwindle::additive::source<C>(sizes, a), (C*)a[7], threads);                            \
  }                                                                                                                    \
  extern "C" void gradients_##suffix(const dwindle::Index* sizes, void** a, const double*, dwindle::Index threads) {   \
    dwindle::additive::gradients(dwindle::additive::source<C>(sizes, a), (const C*)a[7], (C*)a[8], (C*)a[9], threads); \
  }                                                                                                                    \
  extern "C" void shared_##suffix(const dwindle::Index* sizes, void** a, const double*, dwindle::Index threads) {      \
    const dwindle::additive::Shared<C> to{(C*)a[8], (C*)a[9], (C*)a[10]};                                              \
    dwindle::additive::shared(dwindle::additive::source<C>(sizes, a), (const C*)a[7], to, threads);                    \
  }
FUNCTIONS(float, float32)
FUNCTIONS(double, float64)
