// Energies of additive attention, e_i = v . tanh(k_i + q + w c_i), and their gradients, which
// compute the tanh again.
//
// tanh z = 1 - 2 r and its slope is 4 r (1 - r), with r = 1 / (1 + e^2z). Without w, and where no k
// or q is far out, e^2z is the product of e^2k, which serves all steps, and e^2q: no exponential is
// left inside. Plain C++ with arrays in and out. Queries are grouped: `group` of them in a row
// (beams, or the steps of a loop) look at the same source.
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>
#ifdef __AVX512F__
#include <immintrin.h>
#endif
#include "vector.h"

namespace dwindle::additive {

// Source positions at once, which share what is loaded and stored for a column.
constexpr int ROWS = 4;
// K and q up to which e^2k e^2q is a float; energies.py has the same for the keys.
constexpr double REACH = 20;
// Rows from where numbers are fetched into the cache: sources are larger than it.
constexpr int AHEAD = 8;

constexpr double TWICE = 2.8853900817779268;  // 2 / ln 2: e^2z = 2^(TWICE z)

// 2^f on [-1/2, 1/2], within 3e-9.
INLINE Vec<float> raised(Vec<float> f) {
  Vec<float> p = 1.54614447e-4f * f + 1.34004282e-3f;
  p = p * f + 9.61805668e-3f;
  p = p * f + 5.55032723e-2f;
  p = p * f + 2.40226509e-1f;
  p = p * f + 6.93147207e-1f;
  return p * f + 1.f;
}

INLINE Vec<double> reciprocal(Vec<double> x) { return 1.0 / x; }
INLINE Vec<float> reciprocal(Vec<float> x) {
#if defined(__AVX512F__) && DWINDLE_VECTOR_BYTES == 64
  // 14 bits; one step of Newton's doubles them.
  const Vec<float> r = (Vec<float>)_mm512_rcp14_ps((__m512)x);
  return r + r * (1.f - x * r);
#else
  return 1.f / x;
#endif
}

// 2^y, from y, which is clamped where r is 0 or 1 to the last digit.
INLINE Vec<double> power_of_two(Vec<double> y) { return exponential(y * (2 / TWICE)); }
INLINE Vec<float> power_of_two(Vec<float> y) {
#if defined(__AVX512F__) && DWINDLE_VECTOR_BYTES == 64
  const __m512 least = _mm512_min_ps((__m512)y, _mm512_set1_ps(60.f));
  const __m512 n = _mm512_roundscale_ps(least, _MM_FROUND_TO_NEAREST_INT);
  return (Vec<float>)_mm512_scalef_ps((__m512)raised((Vec<float>)(least - n)), n);
#else
  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits.
  const float magic = 12582912.f;
  y = y > 60.f ? spread(60.f) : y;
  y = y < -60.f ? spread(-60.f) : y;
  const Vec<float> shifted = y + magic;
  return (Vec<float>)((IVec<float>)raised(y - (shifted - magic)) + ((IVec<float>)shifted << 23));
#endif
}

// Where r comes from: e^2k and e^2q; or k and q; or k, q and w c.
enum Reach { NEAR, FAR, COVERED };
template <Reach kind> using Of = std::integral_constant<Reach, kind>;

// `key` is e^2k or k, `query` is e^2q or TWICE q, `cover` is TWICE w.
template <Reach kind, class V, class C> INLINE V falling(V key, V query, V cover, C c) {
  if constexpr (kind == NEAR) return reciprocal(key * query + C(1));
  V z = key * C(TWICE) + query;
  if constexpr (kind == COVERED) z += cover * c;
  return reciprocal(power_of_two(z) + C(1));
}

template <class C, bool whole>
INLINE Vec<C> part(const C* p, Index from, Index size, std::bool_constant<whole>) {
  return whole ? load(p + from) : load_some<C>(p + from, size - from);
}
template <class C, bool whole>
INLINE void put(C* p, Index from, Index size, Vec<C> v, std::bool_constant<whole>) {
  if constexpr (whole) return store(p + from, v);
  for (Index j = 0; from + j < size; ++j) p[from + j] = v[j];
}

// B sources of S positions, `group` queries each, A columns. N = B * group.
template <class C> struct Source {
  Index B, group, S, A;
  // (B, S, A), e^2k or null, (N, A), (A), (A), (N, S).
  const C *keys, *raised, *query, *score, *covered, *coverage;
  const std::uint8_t* mask;  // (B, S): positions that are there

  const C* key(Reach kind, Index b, Index i) const {
    return (kind == NEAR ? raised : keys) + (b * S + i) * A;
  }
  std::vector<Index> rows(Index b) const {
    std::vector<Index> there;
    for (Index i = 0; i < S; ++i)
      if (mask[b * S + i]) there.push_back(i);
    return there;
  }
};

// step(Of<kind>) for queries n to m of a source.
template <class C, class Step> void by_kind(const Source<C>& x, Index n, Index m, Step step) {
  if (x.covered) return step(Of<COVERED>{});
  bool near = x.raised;
  for (Index j = n * x.A; near && j < m * x.A; ++j) near = std::abs(x.query[j]) <= C(REACH);
  near ? step(Of<NEAR>{}) : step(Of<FAR>{});
}

// step(j) for every vector of columns; the last one may be short, which `part` and `put` then mind.
template <class C, class Step> INLINE void columns(Index size, Step step) {
  constexpr int n = Simd<C>::lanes;
  Index j = 0;
  for (; j + n <= size; j += n) step(j, std::true_type{});
  if (j < size) step(j, std::false_type{});
}

// step(from, std::integral_constant<int, count>) for `size` things, ROWS at once and then one by
// one.
template <class Step> INLINE void blocks(Index size, Step step) {
  Index i = 0;
  for (; i + ROWS <= size; i += ROWS) step(i, std::integral_constant<int, ROWS>{});
  for (; i < size; ++i) step(i, std::integral_constant<int, 1>{});
}

template <class C> std::vector<C> scaled(const C* x, Index size) {
  std::vector<C> twice(size);
  for (Index j = 0; x && j < size; ++j) twice[j] = x[j] * C(TWICE);
  return twice;
}

// A query as `falling` wants it.
template <Reach kind, class C> std::vector<C> prepared(const C* query, Index size) {
  std::vector<C> out = scaled(query, kind == NEAR ? 0 : size);
  if constexpr (kind == NEAR) {
    out.resize(size);
    columns<C>(size, [&](Index j, auto whole) {
      put(out.data(), j, size, exponential(part(query, j, size, whole) * C(2)), whole);
    });
  }
  return out;
}

// Energies of query n with `count` positions `rows` of source b.
template <Reach kind, int count, class C> void energies(const Source<C>& x, Index b, Index n,
                                                        const Index* rows, const C* query,
                                                        const C* cover, C* out) {
  Vec<C> sums[count] = {};
  C c[count];
  for (int k = 0; k < count; ++k) c[k] = kind == COVERED ? x.coverage[n * x.S + rows[k]] : 0;
  columns<C>(x.A, [&](Index j, auto whole) {
    const Vec<C> q = part(query, j, x.A, whole), v = part(x.score, j, x.A, whole);
    const Vec<C> w = kind == COVERED ? part(cover, j, x.A, whole) : Vec<C>{};
#pragma GCC unroll 4
    for (int k = 0; k < count; ++k) {
      const C* key = x.key(kind, b, rows[k]);
      sums[k] += v * (falling<kind>(part(key, j, x.A, whole), q, w, c[k]) - C(0.5));
      __builtin_prefetch(key + j + AHEAD * x.A);
    }
  });
  for (int k = 0; k < count; ++k) out[n * x.S + rows[k]] = -2 * sum(sums[k]);
}

template <class C> void energies(const Source<C>& x, C* out, int threads) {
  const std::vector<C> cover = scaled(x.covered, x.A);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (Index b = 0; b < x.B; ++b) {
    const std::vector<Index> rows = x.rows(b);
    std::fill(out + b * x.group * x.S, out + (b + 1) * x.group * x.S, C(0));
    by_kind(x, b * x.group, (b + 1) * x.group, [&](auto kind) {
      std::vector<std::vector<C>> queries;
      for (Index n = b * x.group; n < (b + 1) * x.group; ++n)
        queries.push_back(prepared<kind()>(x.query + n * x.A, x.A));
      blocks(rows.size(), [&](Index i, auto count) {
        for (Index g = 0; g < x.group; ++g)
          energies<kind(), count()>(x, b, b * x.group + g, &rows[i], queries[g].data(),
                                    cover.data(), out);
      });
    });
  }
}

// Gradients of the query before its v: `sums` (A); and of the coverage at `count` positions `rows`
// of source b.
template <Reach kind, int count, class C>
void gradients(const Source<C>& x, const C* energy, Index b, Index n, const Index* rows,
               const C* query, const C* cover, C* sums, C* coverage) {
  C given[count], c[count];
  Vec<C> back[count] = {};
  for (int k = 0; k < count; ++k) {
    given[k] = energy[n * x.S + rows[k]];
    c[k] = kind == COVERED ? x.coverage[n * x.S + rows[k]] : 0;
  }
  columns<C>(x.A, [&](Index j, auto whole) {
    const Vec<C> q = part(query, j, x.A, whole);
    const Vec<C> w = kind == COVERED ? part(cover, j, x.A, whole) : Vec<C>{};
    const Vec<C> along = kind == COVERED ? w * part(x.score, j, x.A, whole) : Vec<C>{};
    Vec<C> slopes = part(sums, j, x.A, whole);
#pragma GCC unroll 4
    for (int k = 0; k < count; ++k) {
      const C* key = x.key(kind, b, rows[k]);
      const Vec<C> r = falling<kind>(part(key, j, x.A, whole), q, w, c[k]),
                   slope = given[k] * (r - r * r);
      slopes += slope;
      if constexpr (kind == COVERED) back[k] += slope * along;
      __builtin_prefetch(key + j + AHEAD * x.A);
    }
    put(sums, j, x.A, slopes, whole);
  });
  if constexpr (kind == COVERED)
    for (int k = 0; k < count; ++k) coverage[n * x.S + rows[k]] = sum(back[k]) * C(4 / TWICE);
}

// Those of the query (N, A) and the coverage (N, S), given those of the energies (N, S).
template <class C>
void gradients(const Source<C>& x, const C* energy, C* dquery, C* dcoverage, int threads) {
  const std::vector<C> cover = scaled(x.covered, x.A);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (Index b = 0; b < x.B; ++b) {
    const std::vector<Index> rows = x.rows(b);
    for (Index n = b * x.group; n < (b + 1) * x.group; ++n) {
      if (x.covered) std::fill(dcoverage + n * x.S, dcoverage + (n + 1) * x.S, C(0));
      std::vector<C> sums(x.A);
      by_kind(x, n, n + 1, [&](auto kind) {
        const std::vector<C> query = prepared<kind()>(x.query + n * x.A, x.A);
        blocks(rows.size(), [&](Index i, auto count) {
          gradients<kind(), count()>(x, energy, b, n, &rows[i], query.data(), cover.data(),
                                     sums.data(), dcoverage);
        });
      });
      for (Index j = 0; j < x.A; ++j) dquery[n * x.A + j] = 4 * x.score[j] * sums[j];
    }
  }
}

// Gradients of what all queries share: keys (B, S, A) and, for each source, score and covered (B,
// A).
template <class C> struct Shared {
  C *keys, *score, *covered;
};

// One vector of columns from j on, `count` positions `rows` of source b, all queries. `query` has a
// vector of each; `given` and `c` are the energies' gradient and the coverage, `count` numbers of
// each query.
template <Reach kind, int count, class C, class Whole>
void shared(const Source<C>& x, const Shared<C>& to, Index b, const Index* rows, Index j,
            Whole whole, const C* query, const C* cover, const C* given, const C* c) {
  Vec<C> keys[count], slopes[count] = {}, heights[count] = {}, along{};
  const Vec<C> w = kind == COVERED ? part(cover, j, x.A, whole) : Vec<C>{},
               v = part(x.score, j, x.A, whole);
  for (int k = 0; k < count; ++k) keys[k] = part(x.key(kind, b, rows[k]), j, x.A, whole);
  for (Index g = 0; g < x.group;
       ++g, query += Simd<C>::lanes, given += count, c += kind == COVERED ? count : 0) {
    const Vec<C> q = load(query);
#pragma GCC unroll 4
    for (int k = 0; k < count; ++k) {
      const Vec<C> r = falling<kind>(keys[k], q, w, kind == COVERED ? c[k] : 0),
                   slope = given[k] * (r - r * r);
      slopes[k] += slope;
      heights[k] += given[k] * (C(0.5) - r);
      if constexpr (kind == COVERED) along += slope * c[k];
    }
  }
  Vec<C> height{};
  for (int k = 0; k < count; ++k) {
    put(to.keys + (b * x.S + rows[k]) * x.A, j, x.A, C(4) * v * slopes[k], whole);
    height += heights[k];
  }
  C *score = to.score + b * x.A, *covered = to.covered + b * x.A;
  put(score, j, x.A, part(score, j, x.A, whole) + C(2) * height, whole);
  if constexpr (kind == COVERED)
    put(covered, j, x.A, part(covered, j, x.A, whole) + C(4) * v * along, whole);
}

// (group, S) of the real positions, so that a block of them is together: its numbers for one query,
// for the next.
template <class C>
std::vector<C> by_block(const Source<C>& x, const std::vector<Index>& rows, const C* from) {
  std::vector<C> out;
  out.reserve(x.group * rows.size());
  blocks(rows.size(), [&](Index i, auto count) {
    for (Index g = 0; g < x.group; ++g)
      for (int k = 0; k < count(); ++k) out.push_back(from[g * x.S + rows[i + k]]);
  });
  return out;
}

// (group, A) turned into vectors of columns: that of one query, that of the next.
template <Reach kind, class C> std::vector<C> by_columns(const Source<C>& x, Index b) {
  constexpr int n = Simd<C>::lanes;
  std::vector<C> out((x.A + n - 1) / n * n * x.group);
  for (Index g = 0; g < x.group; ++g) {
    const std::vector<C> query = prepared<kind>(x.query + (b * x.group + g) * x.A, x.A);
    for (Index j = 0; j < x.A; ++j) out[(j / n * x.group + g) * n + j % n] = query[j];
  }
  return out;
}

// `to` is zero before. A key stays in registers while all queries go over it.
template <class C>
void shared(const Source<C>& x, const C* energy, const Shared<C>& to, int threads) {
  const std::vector<C> cover = scaled(x.covered, x.A);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (Index b = 0; b < x.B; ++b) {
    const std::vector<Index> rows = x.rows(b);
    const std::vector<C> given = by_block(x, rows, energy + b * x.group * x.S);
    const std::vector<C> c =
        x.covered ? by_block(x, rows, x.coverage + b * x.group * x.S) : std::vector<C>{};
    by_kind(x, b * x.group, (b + 1) * x.group, [&](auto kind) {
      const std::vector<C> queries = by_columns<kind()>(x, b);
      columns<C>(x.A, [&](Index j, auto whole) {
        blocks(rows.size(), [&](Index i, auto count) {
          shared<kind(), count()>(x, to, b, &rows[i], j, whole, &queries[j * x.group], cover.data(),
                                  &given[i * x.group],
                                  c.data() + (kind() == COVERED ? i * x.group : 0));
        });
      });
    });
  }
}

}  // namespace dwindle::additive
