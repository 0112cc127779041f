// What a rule does to one strip of columns: rows of attention in order, coverage carried along
// (Eqs. 3, 5).
//
// Every g is a Box-Cox function, g'(c) = s (1 + c)^(p - 1). With u = 1 + c before the row and
// x = a / u:
//   log (p = 0):  gain = s E(x),               E(x) = ln(1 + x)
//   power:        gain = (s / p) u^p E(x),     E(x) = (1 + x)^p - 1
//   bounded (p < 0): the same formula in another variable.
// E(x) / x is smooth on [0, 1]; a polynomial fitted once a rule is exact to float32. u^p is carried
// along: multiplied by 1 + E each row, and computed afresh at each block of rows so that it cannot
// drift.
//
// Below p = 0 that polynomial would need many terms, and 1 + E, which gets as small as 2^p, would
// lose its digits. With v = a / (u + a) in [0, 1/2] and h = (1 - v)^(-p / 4), all is well behaved:
// 1 - h is v times a short polynomial, 1 + E = h^4 has no difference in it, and
// -E = (1 - h)(1 + h)(1 + h^2).
//
// With `share_heads` the coverage is that of the heads' mean attention: a strip is then that of all
// heads at once, and each weighs its own attention at the common coverage.
#pragma once
#include "problem.h"
#include "vector.h"

namespace dwindle {

// Every place alike; some columns or rows differ; the same, for all heads.
enum class Scope { all, some, shared };
// The peak's gradient: none, from later only, from these rows too.
enum class Gate { none, passes, flows };

template <class C> struct Function {
  C s, p;
  C terms[TERMS];
};

// Whether u^p is carried from row to row.
constexpr bool carries(Kind kind) { return kind == POWER || kind == BOUNDED; }

// One g along one vector of columns.
template <class C, Kind kind> struct Along {
  const Function<C>& g;
  Vec<C> raised, e;  // u^p before the row (if it is carried); E(x) of the row
  Vec<C> kept;       // 1 + E(x), bounded only
  C factor;

  INLINE Along(const Function<C>& g, Vec<C> u) : g(g), e{}, kept{} {
    raised = carries(kind) ? power(u, g.p) : spread(C(1));
    factor = carries(kind) ? g.s / g.p : g.s;
  }
  // Of attention a, with r = 1 / u and after = 1 / (u + a), which bounded functions alone need.
  INLINE Vec<C> gain(Vec<C> a, Vec<C> r, Vec<C> after) {
    if constexpr (sizeof(C) == 4) {
      const Vec<C> x = a * (kind == BOUNDED ? after : r);
      const Vec<C> y = x * x;
      static_assert(TERMS % 2 == 1, "the even chain has one term more than the odd one");
      Vec<C> even = spread(g.terms[TERMS - 1]), odd = spread(g.terms[TERMS - 2]);  // two at once
#pragma GCC unroll 4
      for (int k = TERMS - 3; k >= 0; k -= 2) {
        even = even * y + g.terms[k];
        if (k) odd = odd * y + g.terms[k - 1];
      }
      e = (odd * x + even) * x;
      if constexpr (kind == BOUNDED) {  // e is 1 - h so far
        const Vec<C> h = C(1) - e, square = h * h;
        kept = square * square;
        e = -e * ((C(1) + h) * (C(1) + square));
      }
    } else {
      for (int j = 0; j < Simd<C>::lanes; ++j) {
        const C log = std::log1p(a[j] * r[j]);
        e[j] = kind == LOG ? log : std::expm1(g.p * log);
        if constexpr (kind == BOUNDED) kept[j] = std::exp(g.p * log);
      }
    }
    return carries(kind) ? factor * (raised * e) : factor * e;
  }
  // g'(c after the row) and how much it fell in this row, without a difference of two slopes.
  INLINE void slopes(Vec<C> a, Vec<C> r, Vec<C> after, Vec<C>& slope, Vec<C>& change) const {
    const Vec<C> x = a * r;
    if constexpr (kind == LOG) {
      slope = g.s * after;
      change = slope * -x;
    } else {
      const Vec<C> share = g.s * raised * after;
      slope = kind == BOUNDED ? share * kept : share + share * e;
      change = share * (e - x);
    }
  }
  INLINE void advance() {
    if constexpr (kind == POWER) raised += raised * e;
    if constexpr (kind == BOUNDED) raised *= kept;
  }
};

// Which places of a strip the rule acts on.
template <class C> struct Flags {
  C plain[Simd<C>::width];   // 1: keeps its plain weight
  C counts[Simd<C>::width];  // 1: is source, has coverage
  bool any_plain, any_counts;
};

// What both passes know of a strip (by value: what is stored through a pointer cannot change it):
// `rows` x width numbers for each head, and from head to head so many steps.
template <class C> struct Strip {
  Index rows, heads;
  const Flags<C>* flags;     // by head; not with Scope::all
  const std::uint8_t* felt;  // by row, or null: all. A row that feels nothing is plain.
  const C *total, *peak;     // the coverage before
  const Function<C>&g1, &g2;

  template <Scope scope> INLINE bool feels(Index t) const {
    return scope == Scope::all || !felt || felt[t];
  }
  template <Scope scope> INLINE Index count() const { return scope == Scope::shared ? heads : 1; }
  template <Scope scope> INLINE auto plain(Index head, int at) const {
    return load(flags[head].plain + at) != C(0);
  }
};

// Forward: turns `tile` (e^(score - reference) times `factor[row]` is the attention) into
// diminished weights in place and moves the coverage `total` and `peak` of the strip past these
// rows. `sums` (or null) gains, by row and lane, the weights and the attention of the columns that
// are not plain.
template <class C> struct ForwardStrip : Strip<C> {
  C* tile;
  Index tile_step;
  const C* factor;
  Index factor_step;
  C *after, *top;  // total and peak, to be overwritten
  C* sums;
  Index sums_step;

  INLINE void add_sums(Index head, Index t, Vec<C> have, Vec<C> mass) const {
    C* at = sums + head * sums_step + t * 2 * Simd<C>::lanes;
    store(at, load(at) + have);
    store(at + Simd<C>::lanes, load(at + Simd<C>::lanes) + mass);
  }
};

template <class C, Mode mode, Kind k1, Kind k2, Scope scope>
void diminish(const ForwardStrip<C> s) {
  constexpr int n = Simd<C>::lanes;
  constexpr bool bounded = k1 == BOUNDED || k2 == BOUNDED;
  // 1 / u after a row is that before the next.
  constexpr bool reuses = bounded && scope == Scope::all;
  const Index heads = s.template count<scope>();
  const C share = C(1) / C(heads);
  Vec<C> c[2] = {load(s.total), load(s.total + n)}, m[2] = {load(s.peak), load(s.peak + n)};
  Vec<C> r[2] = {C(1) / (c[0] + C(1)), C(1) / (c[1] + C(1))};
  Along<C, k1> first[2] = {{s.g1, c[0] + C(1)}, {s.g1, c[1] + C(1)}};
  Along<C, k2> second[2] = {{s.g2, c[0] + C(1)}, {s.g2, c[1] + C(1)}};
  for (Index t = 0; t < s.rows; ++t) {
    const bool feels = s.template feels<scope>(t);
    Vec<C> have{}, mass{};  // of the one head, both vectors
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const Index at = t * 2 * n + h * n;
      if constexpr (!reuses) r[h] = C(1) / (c[h] + C(1));
      Vec<C> mean{}, after{};
      for (Index head = 0; head < heads; ++head) {
        C* place = s.tile + head * s.tile_step + at;
        const Vec<C> a = load(place) * s.factor[head * s.factor_step + t];
        Vec<C> w = a;
        if (!feels) {
          store(place, w);
          continue;
        }
        if constexpr (mode != PLAIN) {
          if constexpr (bounded) after = C(1) / (c[h] + a + C(1));
          w = first[h].gain(a, r[h], after);
          if constexpr (mode == DYDIM) {
            const Vec<C> other = second[h].gain(a, r[h], after);
            w = other + m[h] * (w - other);
          }
          if constexpr (scope != Scope::all) w = s.template plain<scope>(head, h * n) ? a : w;
          if (s.sums) {
            Vec<C> felt_w = w, felt_a = a;
            if constexpr (scope != Scope::all) {
              const auto plain = s.template plain<scope>(head, h * n);
              felt_w = plain ? Vec<C>{} : felt_w;
              felt_a = plain ? Vec<C>{} : felt_a;
            }
            have += felt_w, mass += felt_a;
            if constexpr (scope == Scope::shared) {
              s.add_sums(head, t, have, mass);
              have = mass = Vec<C>{};
            }
          }
        }
        store(place, w);
        mean += a;
      }
      if (!feels) continue;
      if constexpr (scope == Scope::shared) {
        mean *= share;
        const Vec<C> next = C(1) / (c[h] + mean + C(1));
        if constexpr (carries(k1)) first[h].gain(mean, r[h], next);
        if constexpr (carries(k2)) second[h].gain(mean, r[h], next);
      }
      first[h].advance();
      second[h].advance();
      if constexpr (scope != Scope::all)
        mean = load(s.flags->counts + h * n) != C(0) ? mean : Vec<C>{};
      c[h] += mean;
      if constexpr (reuses) r[h] = after;
      m[h] = larger_or_nan<C>(mean, m[h]);
    }
    if (mode != PLAIN && scope != Scope::shared && s.sums) s.add_sums(0, t, have, mass);
  }
  for (int h = 0; h < 2; ++h) {
    store(s.after + h * n, c[h]);
    store(s.top + h * n, m[h]);
  }
}

// Backward of the same rows. In: attention, gradient of the weights, coverage before the rows,
// `later` (the gradient of the coverage after them) and `open_gate` (that of the peak). Out: the
// weights, the gradient of the attention in place of that of the weights, its row sums against the
// attention added to `dots`, and `later` and `open_gate` before the rows. With d the gradient of
// the weight and g' the slope:
//   dL/da_t = d_t g'(c_t) + sum over s > t of d_s (g'(c_s) - g'(c_{s-1}))
// The sum over later rows is that over all rows less that up to t, so one ascending walk does it.
// The gate P_t is the attention of the row that set the peak: its gradient runs backwards and is
// handed over there. A row that was renormalised has the weights f w with f = mass / sum of w. With
// `drift` z = sum of d f w / mass, the gradient of w is f (d - z), and the attention gains z
// through the mass.
template <class C> struct BackwardStrip : Strip<C> {
  const C* attention;
  C* gradient;
  Index tile_step;
  C* weights;  // rows x width, head after head
  C* scratch;  // 3 x rows x width
  C* dots;     // rows x lanes, head after head
  C *later, *open_gate;
  Gate gate;
  const C *scale, *drift;  // f and z by row, or null
  Index scale_step;
};

template <class C, Mode mode, Kind k1, Kind k2, Scope scope>
void diminish_backward(const BackwardStrip<C> s) {
  constexpr int n = Simd<C>::lanes;
  const Index heads = s.template count<scope>(), size = s.rows * 2 * n;
  const C share = C(1) / C(heads);
  Vec<C> all[2] = {load(s.later), load(s.later + n)};
  const bool through = s.gate != Gate::none;
  C *flows = s.scratch, *records = s.scratch + size, *pasts = s.scratch + 2 * size;
  {
    Vec<C> c[2] = {load(s.total), load(s.total + n)}, m[2] = {load(s.peak), load(s.peak + n)}, r[2],
           before[2] = {};
    Along<C, k1> first[2] = {{s.g1, c[0] + C(1)}, {s.g1, c[1] + C(1)}};
    Along<C, k2> second[2] = {{s.g2, c[0] + C(1)}, {s.g2, c[1] + C(1)}};
    for (int h = 0; h < 2; ++h) r[h] = C(1) / (c[h] + C(1));
    for (Index t = 0; t < s.rows; ++t) {
      const bool feels = s.template feels<scope>(t);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const Index at = t * 2 * n + h * n;
        Vec<C> flows_here{}, mean{}, after{};
        for (Index head = 0; head < heads; ++head) {
          const Vec<C> a = load(s.attention + head * s.tile_step + at);
          C* gradient = s.gradient + head * s.tile_step + at;
          Vec<C> w = a;
          if constexpr (mode != PLAIN) {
            if (feels) {
              Vec<C> d = load(gradient), flow{}, gained{}, scale = spread(C(1));
              if (s.scale) {
                scale = spread(s.scale[head * s.scale_step + t]);
                gained = spread(s.drift[head * s.scale_step + t]);
                if constexpr (scope != Scope::all) {
                  const auto plain = s.template plain<scope>(head, h * n);
                  scale = plain ? spread(C(1)) : scale;
                  gained = plain ? Vec<C>{} : gained;
                }
                d = scale * (d - gained);
              }
              after = C(1) / (c[h] + a + C(1));
              Vec<C> slope, change;
              w = first[h].gain(a, r[h], after);
              first[h].slopes(a, r[h], after, slope, change);
              if constexpr (mode == DYDIM) {
                Vec<C> slope2, change2;
                const Vec<C> other = second[h].gain(a, r[h], after);
                second[h].slopes(a, r[h], after, slope2, change2);
                if (s.gate == Gate::flows) flow = d * (w - other);
                w = other + m[h] * (w - other);
                slope = slope2 + m[h] * (slope - slope2);
                change = change2 + m[h] * (change - change2);
              }
              if constexpr (scope != Scope::all) {
                const auto plain = s.template plain<scope>(head, h * n);
                w = plain ? a : w;
                slope = plain ? spread(C(1)) : slope;
                change = plain ? Vec<C>{} : change;
                flow = plain ? Vec<C>{} : flow;
              }
              w *= scale;
              before[h] += d * change;
              flows_here += flow;
              if constexpr (scope == Scope::shared) store(gradient, d * slope + gained);
              else store(gradient, d * slope + gained - before[h]);
            }
          }
          store(s.weights + head * size + at, w);
          mean += a;
        }
        if (!feels) continue;
        if constexpr (scope == Scope::shared) {
          mean *= share;
          const Vec<C> next = C(1) / (c[h] + mean + C(1));
          if constexpr (carries(k1)) first[h].gain(mean, r[h], next);
          if constexpr (carries(k2)) second[h].gain(mean, r[h], next);
          store(pasts + at, before[h]);
        }
        first[h].advance();
        second[h].advance();
        IVec<C> record = mean >= m[h];
        if constexpr (scope != Scope::all) {
          const auto counts = load(s.flags->counts + h * n) != C(0);
          record &= counts;
          mean = counts ? mean : Vec<C>{};
        }
        c[h] += mean;
        if constexpr (mode != PLAIN) r[h] = scope == Scope::all ? after : C(1) / (c[h] + C(1));
        if (through) {
          store(flows + at, flows_here);
          store(records + at, (Vec<C>)record);
        }
        m[h] = larger_or_nan<C>(mean, m[h]);
      }
    }
    for (int h = 0; h < 2; ++h) {
      all[h] += before[h];
      store(s.later + h * n, all[h]);
    }
  }
  Vec<C> open[2] = {};
  if (through) open[0] = load(s.open_gate), open[1] = load(s.open_gate + n);
  for (Index t = s.rows - 1; t >= 0; --t) {
    const bool feels = s.template feels<scope>(t);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const Index at = t * 2 * n + h * n;
      Vec<C> from_later{};  // what the attention of this row is worth to later ones
      if (feels) {
        from_later = all[h];
        if constexpr (scope == Scope::shared) from_later -= load(pasts + at);
        if (through) {
          const auto record = (IVec<C>)load(records + at);
          from_later += record ? open[h] : Vec<C>{};
          open[h] = (record ? Vec<C>{} : open[h]) + load(flows + at);
        }
        if constexpr (scope == Scope::shared) from_later *= share;
        if constexpr (scope != Scope::all) from_later *= load(s.flags->counts + h * n);
      }
      for (Index head = 0; head < heads; ++head) {
        C *gradient = s.gradient + head * s.tile_step + at,
          *dots = s.dots + (head * s.rows + t) * n;
        const Vec<C> g = load(gradient) + from_later;
        store(gradient, g);
        store(dots, load(dots) + g * load(s.attention + head * s.tile_step + at));
      }
    }
  }
  if (through) store(s.open_gate, open[0]), store(s.open_gate + n, open[1]);
}

}  // namespace dwindle
