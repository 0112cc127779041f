// Energies of additive attention, e_i = v . tanh(k_i + q + w c_i), and their gradients, which compute the tanh again.
//
// tanh z = 1 - 2 r and its slope is 4 r (1 - r), with r = 1 / (1 + e^2z). Plain C++ with arrays in and out; additive.py
// owns the tensors. Queries are grouped: `group` of them in a row (beams) look at the same source.
#include <algorithm>
#include <vector>
#ifdef __AVX512F__
#include <immintrin.h>
#endif
#include "../backends/cpu/vector.h"

namespace dwindle {
namespace {

constexpr int ROWS = 4;  // source positions at once, which share what is loaded and stored for a column
constexpr int AHEAD = 8;  // rows from where numbers are fetched into the cache: sources are larger than it

INLINE Vec<double> reciprocal(Vec<double> x) { return 1.0 / x; }
INLINE Vec<float> reciprocal(Vec<float> x) {
#if defined(__AVX512F__) && DWINDLE_VECTOR_BYTES == 64
  const Vec<float> y = (Vec<float>)_mm512_rcp14_ps((__m512)x);  // 14 bits; one step of Newton's doubles them
  return y + y * (1.f - x * y);
#else
  return 1.f / x;
#endif
}

constexpr double TWICE = 2.8853900817779268;  // 2 / ln 2: e^2z = 2^(TWICE z)

// r, from TWICE z. The exponent is clamped where r is 0 or 1 to the last digit.
INLINE Vec<double> falling(Vec<double> y) { return reciprocal(exponential(y * (2 / TWICE)) + 1.0); }
INLINE Vec<float> falling(Vec<float> y) {
  const float magic = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  y = y > 60.f ? spread(60.f) : y;
  y = y < -60.f ? spread(-60.f) : y;
  const Vec<float> shifted = y + magic, f = y - (shifted - magic);
  Vec<float> p = 1.54614447e-4f * f + 1.34004282e-3f;  // 2^f on [-1/2, 1/2], within 3e-9
  p = p * f + 9.61805668e-3f;
  p = p * f + 5.55032723e-2f;
  p = p * f + 2.40226509e-1f;
  p = p * f + 6.93147207e-1f;
  p = p * f + 1.f;
  return reciprocal((Vec<float>)((IVec<float>)p + ((IVec<float>)shifted << 23)) + 1.f);
}

template <class C> INLINE Vec<C> part(const C* p, Index from, Index size) {
  constexpr int n = Simd<C>::lanes;
  return from + n <= size ? load(p + from) : load_some<C>(p + from, size - from);
}
template <class C> INLINE void put(C* p, Index from, Index size, Vec<C> v) {
  constexpr int n = Simd<C>::lanes;
  if (from + n <= size) return store(p + from, v);
  for (Index j = 0; from + j < size; ++j) p[from + j] = v[j];
}

// B sources of S positions, `group` queries each, A columns. N = B * group.
template <class C> struct Source {
  Index B, group, S, A;
  const C *keys, *query, *score, *covered, *coverage;  // (B, S, A), (N, A), (A), (A) or null, (N, S) or null
  const std::uint8_t* mask;                            // (B, S): positions that are there

  const C* key(Index b, Index i) const { return keys + (b * S + i) * A; }
};

template <class C> std::vector<C> scaled(const C* x, Index size) {
  std::vector<C> twice(size);
  for (Index j = 0; x && j < size; ++j) twice[j] = x[j] * C(TWICE);
  return twice;
}

// `query` and `covered` are scaled by TWICE.
template <class C, bool covers>
C energy(const Source<C>& x, const C* key, const C* query, const C* covered, C c) {
  constexpr int n = Simd<C>::lanes;
  Vec<C> sum{};
  for (Index j = 0; j < x.A; j += n) {
    Vec<C> z = part(key, j, x.A) * C(TWICE) + part(query, j, x.A);
    if constexpr (covers) z += part(covered, j, x.A) * c;
    const Vec<C> v = part(x.score, j, x.A);
    sum += v - (v + v) * falling(z);
    __builtin_prefetch(key + j + AHEAD * x.A);
  }
  return dwindle::sum(sum);
}

template <class C> void energies(const Source<C>& x, C* out, int threads) {
  const std::vector<C> covered = scaled(x.covered, x.A), query = scaled(x.query, x.B * x.group * x.A);
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
  for (Index b = 0; b < x.B; ++b)
    for (Index i = 0; i < x.S; ++i)
      for (Index n = b * x.group; n < (b + 1) * x.group; ++n) {
        const Index at = n * x.S + i;
        const C *key = x.key(b, i), *q = &query[n * x.A];
        if (!x.mask[b * x.S + i]) out[at] = 0;
        else if (x.covered) out[at] = energy<C, true>(x, key, q, covered.data(), x.coverage[at]);
        else out[at] = energy<C, false>(x, key, q, nullptr, 0);
      }
}

// Gradients. Those of the query (N, A) and the coverage (N, S) are set; those of what all steps share are added to:
// keys (B, S, A) and, for each source, score and covered (B, A).
template <class C> struct Gradients {
  const C* energy;  // (N, S)
  C *query, *coverage, *keys, *score, *covered;
};

// `count` positions `rows` of source b as query n sees them; `sums` (A) collects the gradient of the query before its v.
template <class C, bool covers, int count>
void gradients(const Source<C>& x, const Gradients<C>& to, Index b, Index n, const Index* rows, const C* query,
               const C* cover, C* sums) {
  constexpr int lanes = Simd<C>::lanes;
  C *score = to.score + b * x.A, *covered = covers ? to.covered + b * x.A : nullptr;
  C given[count], c[count];
  Vec<C> back[count] = {};
  for (int k = 0; k < count; ++k) given[k] = to.energy[n * x.S + rows[k]], c[k] = covers ? x.coverage[n * x.S + rows[k]] : 0;
  for (Index j = 0; j < x.A; j += lanes) {
    const Vec<C> q = part(query, j, x.A), v = part(x.score, j, x.A);
    const Vec<C> w = covers ? part(cover, j, x.A) : Vec<C>{};
    Vec<C> slopes{}, heights{}, along{};
#pragma GCC unroll 4
    for (int k = 0; k < count; ++k) {
      const C* key = x.key(b, rows[k]);
      Vec<C> z = part(key, j, x.A) * C(TWICE) + q;
      if constexpr (covers) z += w * c[k];
      const Vec<C> r = falling(z), slope = (given[k] * C(4)) * (r - r * r);
      heights += given[k] - (given[k] * C(2)) * r;
      slopes += slope;
      if constexpr (covers) along += slope * c[k], back[k] += slope * (v * w);
      C* keys = to.keys + (b * x.S + rows[k]) * x.A;
      put(keys, j, x.A, part(keys, j, x.A) + slope * v);
      __builtin_prefetch(key + j + AHEAD * x.A), __builtin_prefetch(keys + j + AHEAD * x.A);
    }
    put(sums, j, x.A, part(sums, j, x.A) + slopes);
    put(score, j, x.A, part(score, j, x.A) + heights);
    if constexpr (covers) put(covered, j, x.A, part(covered, j, x.A) + along * v);
  }
  if constexpr (covers)
    for (int k = 0; k < count; ++k) to.coverage[n * x.S + rows[k]] = sum(back[k]) / C(TWICE);
}

template <class C, bool covers> void gradients(const Source<C>& x, const Gradients<C>& to, Index b, Index n) {
  const std::vector<C> query = scaled(x.query + n * x.A, x.A), cover = scaled(x.covered, x.A);
  std::vector<C> sums(x.A);
  std::vector<Index> rows;
  for (Index i = 0; i < x.S; ++i) {
    if (covers) to.coverage[n * x.S + i] = 0;
    if (x.mask[b * x.S + i]) rows.push_back(i);
  }
  const Index all = rows.size(), whole = all / ROWS * ROWS;
  for (Index i = 0; i < whole; i += ROWS)
    gradients<C, covers, ROWS>(x, to, b, n, &rows[i], query.data(), cover.data(), sums.data());
  for (Index i = whole; i < all; ++i)
    gradients<C, covers, 1>(x, to, b, n, &rows[i], query.data(), cover.data(), sums.data());
  for (Index j = 0; j < x.A; ++j) to.query[n * x.A + j] = x.score[j] * sums[j];
}

template <class C> void backward(const Source<C>& x, const Gradients<C>& to, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (Index b = 0; b < x.B; ++b)
    for (Index n = b * x.group; n < (b + 1) * x.group; ++n)
      x.covered ? gradients<C, true>(x, to, b, n) : gradients<C, false>(x, to, b, n);
}

}  // namespace
}  // namespace dwindle

#define SOURCE(C)                                                                                                     \
  std::int64_t B, std::int64_t group, std::int64_t S, std::int64_t A, const C *keys, const C *query, const C *score, \
      const C *covered, const C *coverage, const std::uint8_t *mask
#define FUNCTIONS(C, suffix)                                                                                          \
  extern "C" void energies_##suffix(SOURCE(C), C* out, int threads) {                                                 \
    dwindle::energies<C>({B, group, S, A, keys, query, score, covered, coverage, mask}, out, threads);                \
  }                                                                                                                   \
  extern "C" void gradients_##suffix(SOURCE(C), const C* energy, C* dquery, C* dcoverage, C* dkeys, C* dscore,        \
                                     C* dcovered, int threads) {                                                      \
    dwindle::backward<C>({B, group, S, A, keys, query, score, covered, coverage, mask},                               \
                         {energy, dquery, dcoverage, dkeys, dscore, dcovered}, threads);                              \
  }
FUNCTIONS(float, float32)
FUNCTIONS(double, float64)
