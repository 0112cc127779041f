// The functions that the recurrent models call. Sizes and arrays come in the order of the structures they fill.
#include "decoder.h"
#include "likelihood.h"
#include "lstm.h"

namespace dwindle {
namespace {

template <class C> Lstm<C> lstm(const Index* sizes, void** arrays) {
  return {sizes[0], sizes[1], sizes[2], bool(sizes[3]), (const C*)arrays[0], (const std::uint8_t*)arrays[1]};
}

template <class C> void take(void**& arrays, C*& to) { to = (C*)*arrays++; }

// A g is its kind by p, s and p, and its polynomial.
template <class C> Function<C> function(const double* numbers, const double* terms) {
  Function<C> g{C(numbers[0]), C(numbers[1]), {}};
  for (int k = 0; k < TERMS; ++k) g.terms[k] = C(terms[k]);
  return g;
}
Kind kind(const double* numbers) { return numbers[1] ? POWER : LOG; }

// `rule`: as cpu/op.py of the core has it: how many g's, s and p of both, whether the gate is detached, two options, terms.
template <class C> Decoder<C> decoder(const Index* sizes, void**& arrays, const double* rule) {
  Decoder<C> x{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]};
  const C** given[] = {&x.words, &x.keys, &x.raised, &x.values};
  for (const C** array : given) take(arrays, *array);
  take(arrays, x.mask);
  const C** weights[] = {&x.score, &x.covered, &x.gates, &x.gates_bias, &x.query, &x.query_bias,
                         &x.hidden0, &x.cell0, &x.context0};
  for (const C** array : weights) take(arrays, *array);
  C** left[] = {&x.fed, &x.opened, &x.hidden, &x.cell, &x.queries, &x.log_attention, &x.weights,
                &x.totals, &x.peaks, &x.context, &x.total, &x.peak};
  for (C** array : left) take(arrays, *array);
  x.mode = Mode(int(rule[0]));
  x.detach_gate = rule[5] != 0;
  x.kind1 = kind(rule + 1), x.kind2 = kind(rule + 3);
  x.g1 = function<C>(rule + 1, rule + 8), x.g2 = function<C>(rule + 3, rule + 8 + TERMS);
  return x;
}

template <class C> DecoderGradients<C> gradients(void** arrays) {
  DecoderGradients<C> d{};
  take(arrays, d.fed);
  take(arrays, d.hidden);
  take(arrays, d.cell);
  C** others[] = {&d.log_attention, &d.weights, &d.contexts, &d.gates, &d.queries,
                  &d.hidden0, &d.cell0, &d.context, &d.total, &d.peak};
  for (C** array : others) take(arrays, *array);
  return d;
}

}  // namespace
}  // namespace dwindle

using dwindle::Index;
#define FUNCTIONS(C, suffix)                                                                                       \
  extern "C" void lstm_##suffix(const Index* sizes, void** a, const double*, Index threads) {                      \
    dwindle::forward(dwindle::lstm<C>(sizes, a), (C*)a[2], (C*)a[3], (C*)a[4], threads);                           \
  }                                                                                                                \
  extern "C" void lstm_backward_##suffix(const Index* sizes, void** a, const double*, Index threads) {             \
    dwindle::backward(dwindle::lstm<C>(sizes, a), (const C*)a[2], (const C*)a[3], (const C*)a[4], (const C*)a[5],  \
                      (C*)a[6], threads);                                                                          \
  }                                                                                                                \
  extern "C" void decoder_##suffix(const Index* sizes, void** a, const double* rule, Index threads) {              \
    dwindle::forward(dwindle::decoder<C>(sizes, a, rule), threads);                                                \
  }                                                                                                                \
  extern "C" void decoder_backward_##suffix(const Index* sizes, void** a, const double* rule, Index threads) {     \
    const auto x = dwindle::decoder<C>(sizes, a, rule);                                                            \
    dwindle::backward(x, dwindle::gradients<C>(a), threads);                                                       \
  }                                                                                                                \
  extern "C" void words_##suffix(const Index* sizes, void** a, const double*, Index threads) {                     \
    dwindle::words<C>({sizes[0], sizes[1], (C*)a[0], (const C*)a[1], (const std::int64_t*)a[2], (const C*)a[3],    \
                       (const C*)a[4], (C*)a[5], (C*)a[6], (C*)a[7]}, threads);                                    \
  }
FUNCTIONS(float, float32)
FUNCTIONS(double, float64)
