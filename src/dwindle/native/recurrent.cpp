// What the recurrent models call. Sizes and arrays come in the order of the structures they fill.
#include "decoder.h"
#include "functions.h"
#include "likelihood.h"
#include "lstm.h"

namespace dwindle {
namespace {

template <class C> Lstm<C> layer(const Arguments& given) {
  const Index* sizes = given.sizes;
  return {sizes[0],
          sizes[1],
          sizes[2],
          bool(sizes[3]),
          (const C*)given.arrays[0],
          (const std::uint8_t*)given.arrays[1]};
}

template <class C> void lstm(const Arguments& given) {
  void** a = given.arrays;
  forward(layer<C>(given), (C*)a[2], (C*)a[3], (C*)a[4], given.threads);
}
template <class C> void lstm_backward(const Arguments& given) {
  void** a = given.arrays;
  backward(layer<C>(given), (const C*)a[2], (const C*)a[3], (const C*)a[4], (const C*)a[5],
           (C*)a[6], given.threads);
}

template <class C> void take(void**& arrays, C*& to) { to = (C*)*arrays++; }

// `arrays` is moved past what was taken.
template <class C> Decoder<C> loop(const Arguments& given, void**& arrays) {
  const Index* sizes = given.sizes;
  Decoder<C> x{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]};
  const C** inputs[] = {&x.words, &x.keys, &x.raised, &x.values};
  for (const C** array : inputs) take(arrays, *array);
  take(arrays, x.mask);
  const C** weights[] = {&x.score,      &x.covered, &x.gates, &x.gates_bias, &x.query,
                         &x.query_bias, &x.hidden0, &x.cell0, &x.context0};
  for (const C** array : weights) take(arrays, *array);
  C** left[] = {&x.fed,     &x.opened, &x.hidden, &x.cell,    &x.queries, &x.log_attention,
                &x.weights, &x.totals, &x.peaks,  &x.context, &x.total,   &x.peak};
  for (C** array : left) take(arrays, *array);
  const RuleNumbers& rule = *reinterpret_cast<const RuleNumbers*>(given.numbers);
  x.mode = Mode(rule.mode), x.detach_gate = rule.detach_gate;
  x.kind1 = Kind(rule.kind1), x.kind2 = Kind(rule.kind2);
  x.g1 = function<C>({x.kind1, rule.s1, rule.p1, rule.terms1});
  x.g2 = function<C>({x.kind2, rule.s2, rule.p2, rule.terms2});
  return x;
}

template <class C> DecoderGradients<C> gradients(void** arrays) {
  DecoderGradients<C> d{};
  take(arrays, d.fed);
  take(arrays, d.hidden);
  take(arrays, d.cell);
  C** others[] = {&d.log_attention, &d.weights, &d.contexts, &d.gates, &d.queries,
                  &d.hidden0,       &d.cell0,   &d.context,  &d.total, &d.peak};
  for (C** array : others) take(arrays, *array);
  return d;
}

template <class C> void decoder(const Arguments& given) {
  void** arrays = given.arrays;
  forward(loop<C>(given, arrays), given.threads);
}
template <class C> void decoder_backward(const Arguments& given) {
  void** arrays = given.arrays;
  const Decoder<C> x = loop<C>(given, arrays);
  backward(x, gradients<C>(arrays), given.threads);
}

template <class C> void call_words(const Arguments& given) {
  void** a = given.arrays;
  words<C>({given.sizes[0], given.sizes[1], (C*)a[0], (const C*)a[1], (const std::int64_t*)a[2],
            (const C*)a[3], (const C*)a[4], (C*)a[5], (C*)a[6], (C*)a[7]},
           given.threads);
}

}  // namespace
}  // namespace dwindle

EXPORT(lstm, float32, dwindle::lstm<float>)
EXPORT(lstm, float64, dwindle::lstm<double>)
EXPORT(lstm_backward, float32, dwindle::lstm_backward<float>)
EXPORT(lstm_backward, float64, dwindle::lstm_backward<double>)
EXPORT(decoder, float32, dwindle::decoder<float>)
EXPORT(decoder, float64, dwindle::decoder<double>)
EXPORT(decoder_backward, float32, dwindle::decoder_backward<float>)
EXPORT(decoder_backward, float64, dwindle::decoder_backward<double>)
EXPORT(words, float32, dwindle::call_words<float>)
EXPORT(words, float64, dwindle::call_words<double>)
