// What recurrent loops repeat at every step: products with weights that were packed once, and the
// cell of an LSTM.
//
// A loop works on a few rows (of the batch) at a time, so its products are narrow and the weights
// should come from the cache: they lie in strips, as gemm.h wants them. Knows no attention.
#pragma once
#include <vector>

#include "energies.h"
#include "work.h"

namespace dwindle {

using additive::columns;
using additive::part;
using additive::power_of_two;
using additive::put;
using additive::reciprocal;

// The right side (depth x wide) of products with a few rows.
template <class C> class Packed {
 public:
  Index depth, wide;

  // Of x W^T, with W (out x in) as PyTorch has the weight of a layer.
  static Packed turned(const C* weight, Index out, Index in) {
    Packed packed(in, out);
    for (Index s = 0; s * strip < out; ++s)
      pack_columns(weight + s * strip * in, in, std::min(strip, out - s * strip), in, packed.at(s));
    return packed;
  }
  // Of x W.
  static Packed straight(const C* weight, Index out, Index in) {
    Packed packed(out, in);
    for (Index s = 0; s * strip < in; ++s)
      for (Index k = 0; k < out; ++k)
        for (Index j = s * strip; j < std::min(in, (s + 1) * strip); ++j)
          packed.at(s)[k * strip + j - s * strip] = weight[k * in + j];
    return packed;
  }
  Index stride() const { return round_up(wide, strip); }  // of what comes out: whole strips
  // out (rows x stride) += x (rows x depth) times this.
  void add_product(Index rows, const C* x, Index ld, C* out) const {
    for (Index s = 0; s * strip < wide; ++s)
      // A piece of a strip, which stays in the nearest cache for all rows.
      for (Index k = 0; k < depth; k += DEEP) {
        const Index some = std::min(DEEP, depth - k);
        const Left<C> left{x + k, ld, 1, some, 0};
        vector_product<C, 2>(rows, left, some, at(s) + k * strip, strip, out + s * strip, stride(),
                             true);
      }
  }

 private:
  static constexpr Index strip = Simd<C>::width, DEEP = 16384 / (strip * sizeof(C));
  Buffer<C> strips;

  Packed(Index depth, Index wide) : depth(depth), wide(wide) {
    std::fill_n(strips.get(round_up(wide, strip) * depth), round_up(wide, strip) * depth, C(0));
  }
  C* at(Index s) const { return strips.get() + s * strip * depth; }
};

template <class V> INLINE V logistic(V x) {
  return reciprocal(power_of_two(x * -1.44269504088896341f) + 1.f);
}
INLINE Vec<double> logistic(Vec<double> x) {
  return 1.0 / (1.0 + power_of_two(x * -1.44269504088896341));
}

// One row of H cells from its gates (4H: input, forget, candidate, output, as PyTorch has them),
// which are left behind opened.
template <class C> void lstm_cell(Index H, C* gates, const C* before, C* hidden, C* cell) {
  columns<C>(H, [&](Index j, auto whole) {
    const auto open = [&](Index n) { return part(gates + n * H, j, H, whole); };
    const Vec<C> enter = logistic(open(0)), keep = logistic(open(1)),
                 add = hyperbolic_tangent(open(2)), leave = logistic(open(3));
    const Vec<C> after = keep * part(before, j, H, whole) + enter * add;
    const Vec<C> opened[] = {enter, keep, add, leave};
    for (Index n = 0; n < 4; ++n) put(gates + n * H, j, H, opened[n], whole);
    put(cell, j, H, after, whole);
    put(hidden, j, H, leave * hyperbolic_tangent(after), whole);
  });
}

// Its gradients. `dhidden` and `dcell` (H) are those of what came out; `dcell` becomes that of the
// cell before.
template <class C> void lstm_cell_backward(Index H, const C* opened, const C* before, const C* cell,
                                           const C* dhidden, C* dcell, C* dgates) {
  columns<C>(H, [&](Index j, auto whole) {
    const auto open = [&](Index n) { return part(opened + n * H, j, H, whole); };
    const Vec<C> enter = open(0), keep = open(1), add = open(2), leave = open(3);
    const Vec<C> shown = hyperbolic_tangent(part(cell, j, H, whole)),
                 given = part(dhidden, j, H, whole);
    const Vec<C> through = part(dcell, j, H, whole) + given * leave * (C(1) - shown * shown);
    const Vec<C> back[] = {through * add * enter * (C(1) - enter),
                           through * part(before, j, H, whole) * keep * (C(1) - keep),
                           through * enter * (C(1) - add * add),
                           given * shown * leave * (C(1) - leave)};
    for (Index n = 0; n < 4; ++n) put(dgates + n * H, j, H, back[n], whole);
    put(dcell, j, H, through * keep, whole);
  });
}

template <class C> void copy(Index size, const C* from, C* to) { std::copy(from, from + size, to); }
template <class C> void add(Index size, const C* from, C* to) {
  for (Index j = 0; j < size; ++j) to[j] += from[j];
}

// run(from, to) for as many parts of `rows` as there are threads. Each does its own loop: nobody
// waits for another.
template <class Run> void in_parts(Index rows, Index threads, Run run) {
  const Index parts = std::max<Index>(1, std::min(threads, rows));
#pragma omp parallel for num_threads(parts) schedule(static)
  for (Index n = 0; n < parts; ++n) run(n * rows / parts, (n + 1) * rows / parts);
}

}  // namespace dwindle
