// Additive attention, which energies.py calls: it owns the tensors, energies.h does the work.
#include "energies.h"
#include "functions.h"

namespace dwindle::additive {
namespace {

// Sizes: sources, queries of each, positions, columns. Arrays: as the structure has them.
template <class C> Source<C> source(const Arguments& given) {
  const Index* sizes = given.sizes;
  void** a = given.arrays;
  return {sizes[0],
          sizes[1],
          sizes[2],
          sizes[3],
          (const C*)a[0],
          (const C*)a[1],
          (const C*)a[2],
          (const C*)a[3],
          (const C*)a[4],
          (const C*)a[5],
          (const std::uint8_t*)a[6]};
}

template <class C> void call_energies(const Arguments& given) {
  energies(source<C>(given), (C*)given.arrays[7], given.threads);
}
template <class C> void call_gradients(const Arguments& given) {
  void** a = given.arrays;
  gradients(source<C>(given), (const C*)a[7], (C*)a[8], (C*)a[9], given.threads);
}
template <class C> void call_shared(const Arguments& given) {
  void** a = given.arrays;
  shared(source<C>(given), (const C*)a[7], Shared<C>{(C*)a[8], (C*)a[9], (C*)a[10]}, given.threads);
}

}  // namespace
}  // namespace dwindle::additive

EXPORT(energies, float32, dwindle::additive::call_energies<float>)
EXPORT(energies, float64, dwindle::additive::call_energies<double>)
EXPORT(gradients, float32, dwindle::additive::call_gradients<float>)
EXPORT(gradients, float64, dwindle::additive::call_gradients<double>)
EXPORT(shared, float32, dwindle::additive::call_shared<float>)
EXPORT(shared, float64, dwindle::additive::call_shared<double>)
