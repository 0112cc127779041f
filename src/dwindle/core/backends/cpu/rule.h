// What a rule does to one strip of columns: rows of attention in order, coverage carried along (Eqs. 3, 5).
//
// Every g is a Box-Cox function, g'(c) = s (1 + c)^(p - 1). With u = 1 + c before the row and x = a / u:
//   log (p = 0):  gain = s E(x),               E(x) = ln(1 + x)
//   power:        gain = (s / p) u^p E(x),     E(x) = (1 + x)^p - 1
// E(x) / x is smooth on [0, 1]; a polynomial fitted once a rule is exact to float32. u^p is carried along:
// multiplied by 1 + E each row, and computed afresh at each block of rows so that it cannot drift.
#pragma once
#include "problem.h"
#include "vector.h"

namespace dwindle {

enum class Gate { none, passes, flows };  // the peak's gradient: none, from later only, from these rows too

template <class C> struct Function {
  C s, p;
  C terms[TERMS];
};

// One g along one vector of columns.
template <class C, Kind kind> struct Along {
  const Function<C>& g;
  Vec<C> raised, e;  // u^p before the row (power only); E(x) of the row
  C factor;

  INLINE Along(const Function<C>& g, Vec<C> u) : g(g), e{} {
    raised = kind == POWER ? power(u, g.p) : spread(C(1));
    factor = kind == POWER ? g.s / g.p : g.s;
  }
  INLINE Vec<C> gain(Vec<C> x) {
    if constexpr (sizeof(C) == 4) {
      const Vec<C> y = x * x;
      Vec<C> even = spread(g.terms[8]), odd = spread(g.terms[7]);  // two chains at once
#pragma GCC unroll 4
      for (int k = 6; k >= 0; k -= 2) {
        even = even * y + g.terms[k];
        if (k) odd = odd * y + g.terms[k - 1];
      }
      e = (odd * x + even) * x;
    } else {
      for (int j = 0; j < Simd<C>::lanes; ++j)
        e[j] = kind == LOG ? std::log1p(x[j]) : std::expm1(g.p * std::log1p(x[j]));
    }
    return kind == POWER ? factor * (raised * e) : factor * e;
  }
  // g'(c after the row) and how much it fell in this row, without a difference of two slopes.
  INLINE void slopes(Vec<C> x, Vec<C> r_after, Vec<C>& slope, Vec<C>& change) const {
    if constexpr (kind == LOG) {
      slope = g.s * r_after;
      change = slope * -x;
    } else {
      const Vec<C> share = g.s * raised * r_after;
      slope = share + share * e;
      change = share * (e - x);
    }
  }
  INLINE void advance() { if constexpr (kind == POWER) raised += raised * e; }
};

// Forward: turns `tile` (rows x width, e^(score - reference) times `factor[row]` is the attention) into
// diminished weights in place and moves the coverage `total` and `peak` of the strip past these rows.
template <class C, Mode mode, Kind k1, Kind k2, bool protect>
void diminish(Index rows, C* tile, const C* factor, C* total, C* peak, const C* kept,
              const Function<C>& g1, const Function<C>& g2) {
  constexpr int n = Simd<C>::lanes;
  Vec<C> c[2] = {load(total), load(total + n)}, m[2] = {load(peak), load(peak + n)};
  Along<C, k1> first[2] = {{g1, c[0] + C(1)}, {g1, c[1] + C(1)}};
  Along<C, k2> second[2] = {{g2, c[0] + C(1)}, {g2, c[1] + C(1)}};
  for (Index t = 0; t < rows; ++t, tile += 2 * n) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const Vec<C> a = load(tile + h * n) * factor[t];
      Vec<C> w = a;
      if constexpr (mode != PLAIN) {
        const Vec<C> x = a / (c[h] + C(1));
        w = first[h].gain(x);
        first[h].advance();
        if constexpr (mode == DYDIM) {
          const Vec<C> other = second[h].gain(x);
          second[h].advance();
          w = other + m[h] * (w - other);
        }
        if constexpr (protect) w = load(kept + h * n) != C(0) ? a : w;
      }
      store(tile + h * n, w);
      c[h] += a;
      m[h] = larger<C>(a, m[h]);
    }
  }
  for (int h = 0; h < 2; ++h) {
    store(total + h * n, c[h]);
    store(peak + h * n, m[h]);
  }
}

// Backward of the same rows. In: attention, gradient of the weights, coverage before the rows, `later` (the
// gradient of the coverage after them) and `open_gate` (that of the peak). Out: the weights, the gradient of the
// attention in place of that of the weights, its row sums against the attention added to `dots`, and
// `later` and `open_gate` before the rows. With d the gradient of the weight and g' the slope:
//   dL/da_t = d_t g'(c_t) + sum over s > t of d_s (g'(c_s) - g'(c_{s-1}))
// The sum over later rows is that over all rows less that up to t, so one ascending walk does it. The gate P_t
// is the attention of the row that set the peak: its gradient runs backwards and is handed over there.
template <class C, Mode mode, Kind k1, Kind k2, bool protect>
void diminish_backward(Index rows, const C* attention, C* gradient, C* weights, C* scratch, C* dots,
                       const C* total, const C* peak, C* later, C* open_gate, Gate gate, const C* kept,
                       const Function<C>& g1, const Function<C>& g2) {
  constexpr int n = Simd<C>::lanes;
  Vec<C> all[2] = {load(later), load(later + n)};
  const bool through = gate != Gate::none;
  C *flows = scratch, *records = scratch + rows * 2 * n;
  {
    Vec<C> c[2] = {load(total), load(total + n)}, m[2] = {load(peak), load(peak + n)}, r[2], before[2] = {};
    Along<C, k1> first[2] = {{g1, c[0] + C(1)}, {g1, c[1] + C(1)}};
    Along<C, k2> second[2] = {{g2, c[0] + C(1)}, {g2, c[1] + C(1)}};
    for (int h = 0; h < 2; ++h) r[h] = C(1) / (c[h] + C(1));
    for (Index t = 0; t < rows; ++t) {
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const Index at = t * 2 * n + h * n;
        const Vec<C> a = load(attention + at), d = load(gradient + at);
        Vec<C> w = a, flow{};
        c[h] += a;
        if constexpr (mode != PLAIN) {
          const Vec<C> after = C(1) / (c[h] + C(1)), x = a * r[h];
          Vec<C> slope, change;
          w = first[h].gain(x);
          first[h].slopes(x, after, slope, change);
          first[h].advance();
          if constexpr (mode == DYDIM) {
            Vec<C> slope2, change2;
            const Vec<C> other = second[h].gain(x);
            second[h].slopes(x, after, slope2, change2);
            second[h].advance();
            if (gate == Gate::flows) flow = d * (w - other);
            w = other + m[h] * (w - other);
            slope = slope2 + m[h] * (slope - slope2);
            change = change2 + m[h] * (change - change2);
          }
          if constexpr (protect) {
            const auto keep = load(kept + h * n) != C(0);
            w = keep ? a : w;
            slope = keep ? spread(C(1)) : slope;
            change = keep ? Vec<C>{} : change;
            flow = keep ? Vec<C>{} : flow;
          }
          before[h] += d * change;
          store(gradient + at, d * slope - before[h]);
          r[h] = after;
        }
        store(weights + at, w);
        if (through) {
          store(flows + at, flow);
          store(records + at, (Vec<C>)(a >= m[h]));
        }
        m[h] = larger<C>(a, m[h]);
      }
    }
    for (int h = 0; h < 2; ++h) {
      all[h] += before[h];
      store(later + h * n, all[h]);
    }
  }
  Vec<C> open[2] = {};
  if (through) open[0] = load(open_gate), open[1] = load(open_gate + n);
  for (Index t = rows - 1; t >= 0; --t) {
    Vec<C> dot = load(dots + t * n);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const Index at = t * 2 * n + h * n;
      Vec<C> g = load(gradient + at) + all[h];
      if (through) {
        const auto record = (IVec<C>)load(records + at);
        g += record ? open[h] : Vec<C>{};
        open[h] = (record ? Vec<C>{} : open[h]) + load(flows + at);
      }
      store(gradient + at, g);
      dot += g * load(attention + at);
    }
    store(dots + t * n, dot);
  }
  if (through) store(open_gate, open[0]), store(open_gate + n, open[1]);
}

}  // namespace dwindle
