// Vectors of the machine's width and the few functions on them that the kernel needs.
//
// GCC's vector extensions: the same source becomes AVX2, AVX-512, NEON or plain SSE. Knows no
// attention.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#if defined(DWINDLE_VECTOR_BYTES)  // a test of other machines' widths
#elif defined(__AVX512F__)
#define DWINDLE_VECTOR_BYTES 64
#elif defined(__AVX__)
#define DWINDLE_VECTOR_BYTES 32
#else
#define DWINDLE_VECTOR_BYTES 16
#endif

#define INLINE inline __attribute__((always_inline))
#define PHASE __attribute__((noinline))  // shows by its name in a profile

namespace dwindle {

using Index = std::int64_t;

struct Bfloat16 {
  std::uint16_t bits;
};
#if defined(__FLT16_MAX__)
using Half = _Float16;
#else
struct Half {
  std::uint16_t bits;
};
#endif

template <class C> struct Types;
template <> struct Types<float> {
  typedef std::int32_t Int;
};
template <> struct Types<double> {
  typedef std::int64_t Int;
};

template <class C> struct Simd {
  static constexpr int lanes = DWINDLE_VECTOR_BYTES / sizeof(C);
  static constexpr int width = 2 * lanes;  // a strip: two vectors, one or two cache lines
  typedef C Vec __attribute__((vector_size(DWINDLE_VECTOR_BYTES)));
  typedef typename Types<C>::Int IVec __attribute__((vector_size(DWINDLE_VECTOR_BYTES)));
};
template <class C> using Vec = typename Simd<C>::Vec;
template <class C> using IVec = typename Simd<C>::IVec;

template <class C> INLINE Vec<C> load(const C* p) {
  Vec<C> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class C> INLINE void store(C* p, Vec<C> v) { std::memcpy(p, &v, sizeof v); }
template <class C> INLINE Vec<C> spread(C x) { return x - Vec<C>{}; }  // x + 0 is not x for -0
template <class C> INLINE Vec<C> larger(Vec<C> a, Vec<C> b) { return a > b ? a : b; }
// The same, but NaN if one of them is: a peak must not hide attention that went wrong.
template <class C> INLINE Vec<C> larger_or_nan(Vec<C> a, Vec<C> b) {
  return (a > b) | (a != a) ? a : b;
}

// Numbers in memory (float, double, bfloat16, float16) to and from the type C of the arithmetic.
template <class C> INLINE C widen(C x) { return x; }
INLINE float widen(Bfloat16 x) {
  std::uint32_t bits = std::uint32_t(x.bits) << 16;
  float y;
  std::memcpy(&y, &bits, 4);
  return y;
}
template <class IO, class C> INLINE IO narrow(C x) { return IO(x); }
template <> INLINE Bfloat16 narrow<Bfloat16, float>(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return Bfloat16{std::uint16_t(0x7fc0)};
  return Bfloat16{std::uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
#if defined(__FLT16_MAX__)
INLINE float widen(Half x) { return float(x); }
#else
INLINE float widen(Half h) {
  const int exponent = (h.bits >> 10) & 31, mantissa = h.bits & 1023;
  const float sign = h.bits >> 15 ? -1.f : 1.f;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign *
         std::ldexp(float(exponent ? mantissa + 1024 : mantissa), (exponent ? exponent : 1) - 25);
}
template <> INLINE Half narrow<Half, float>(float x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float y = std::fabs(x);
  if (std::isnan(x)) return Half{std::uint16_t(sign | 0x7e00)};
  if (y >= 65520.f) return Half{std::uint16_t(sign | 0x7c00)};
  int e;
  std::frexp(y, &e);
  e = e < -13 ? -13 : e;  // below: subnormal, in steps of 2^-24
  const int units = int(std::nearbyint(std::ldexp(y, 11 - e)));
  return Half{std::uint16_t(sign | (units + ((e + 13) << 10)))};
}
#endif

template <class C, class IO> INLINE Vec<C> load_as(const IO* p) {
  Vec<C> v;
  for (int j = 0; j < Simd<C>::lanes; ++j) v[j] = widen(p[j]);
  return v;
}
template <> INLINE Vec<float> load_as<float, float>(const float* p) { return load(p); }
template <> INLINE Vec<double> load_as<double, double>(const double* p) { return load(p); }
// The first n lanes, then zeros.
template <class C, class IO> INLINE Vec<C> load_some(const IO* p, Index n) {
  Vec<C> v{};
  for (Index j = 0; j < n; ++j) v[j] = widen(p[j]);
  return v;
}

// Lane j with lane j ^ step, for every lane.
template <class C, int step, std::size_t... j>
INLINE Vec<C> crossed(Vec<C> v, std::index_sequence<j...>) {
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(v, v, int(j ^ step)...);
#else
  return Vec<C>{v[j ^ step]...};
#endif
}
// All lanes joined in log2(lanes) rounds; every lane then has the result.
template <class C, int step = Simd<C>::lanes / 2, class Join> INLINE C joined(Vec<C> v, Join join) {
  if constexpr (step == 0) return v[0];
  else
    return joined<C, step / 2>(
        join(v, crossed<C, step>(v, std::make_index_sequence<Simd<C>::lanes>{})), join);
}
template <class V> INLINE auto sum(V v) {
  return joined<std::remove_cvref_t<decltype(v[0])>>(v, [](V a, V b) { return a + b; });
}
template <class C> INLINE C top(Vec<C> v) {
  return joined<C>(v, [](Vec<C> a, Vec<C> b) { return larger<C>(a, b); });
}

// e^x for x <= 0 or moderate: 2^n times a polynomial on [-ln2/2, ln2/2]; zero below the smallest
// normal.
INLINE Vec<float> exponential(Vec<float> x) {
  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits.
  const float magic = 12582912.f;
  const Vec<float> shifted = x * 1.44269504088896341f + magic;
  const Vec<float> n = shifted - magic;
  const Vec<float> r = (x - n * 0.693145751953125f) - n * 1.42860677e-6f;
  Vec<float> y = 1.9875691500e-4f * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * (r * r) + r + 1.f;
  const Vec<float> scaled = (Vec<float>)((IVec<float>)y + ((IVec<float>)shifted << 23));
  return x < -87.f ? Vec<float>{} : scaled;
}
INLINE Vec<double> exponential(Vec<double> x) {
  for (int j = 0; j < Simd<double>::lanes; ++j) x[j] = std::exp(x[j]);
  return x;
}
template <class C> INLINE C exponential(C x) { return std::exp(x); }

// ln x for normal x >= 1.
INLINE Vec<float> logarithm(Vec<float> x) {
  const IVec<float> bits = (IVec<float>)x;
  IVec<float> e = (bits - 0x3f3504f3) >> 23;  // so that the mantissa lies in [sqrt(1/2), sqrt(2))
  const Vec<float> m = (Vec<float>)(bits - (e << 23)) - 1.f;
  const Vec<float> n = __builtin_convertvector(e, Vec<float>);
  Vec<float> y = 7.0376836292e-2f * m - 1.1514610310e-1f;
  y = y * m + 1.1676998740e-1f;
  y = y * m - 1.2420140846e-1f;
  y = y * m + 1.4249322787e-1f;
  y = y * m - 1.6668057665e-1f;
  y = y * m + 2.0000714765e-1f;
  y = y * m - 2.4999993993e-1f;
  y = y * m + 3.3333331174e-1f;
  const Vec<float> z = m * m;
  y = y * m * z + n * -2.12194440e-4f - 0.5f * z;
  return m + y + n * 0.693359375f;
}
INLINE Vec<float> power(Vec<float> x, float p) { return exponential(logarithm(x) * p); }
INLINE Vec<double> power(Vec<double> x, double p) {
  for (int j = 0; j < Simd<double>::lanes; ++j) x[j] = std::pow(x[j], p);
  return x;
}

INLINE Vec<float> hyperbolic_tangent(Vec<float> x) {
  const Vec<float> y = x < 0.f ? -x : x, z = x * x;
  Vec<float> odd = 62.f / 2835.f - z * (1382.f / 155925.f);
  odd = odd * z - 17.f / 315.f;
  odd = odd * z + 2.f / 15.f;
  odd = odd * z - 1.f / 3.f;
  odd = odd * z * x + x;
  const Vec<float> far = 1.f - 2.f / (exponential(y > 20.f ? spread(40.f) : y + y) + 1.f);
  return y < 0.3f ? odd : (x < 0.f ? -far : far);
}
INLINE Vec<double> hyperbolic_tangent(Vec<double> x) {
  for (int j = 0; j < Simd<double>::lanes; ++j) x[j] = std::tanh(x[j]);
  return x;
}

// A square of vectors, transposed in log2(lanes) rounds of pairwise exchanges.
template <class C, int step, std::size_t... j>
INLINE void exchange(Vec<C>& a, Vec<C>& b, std::index_sequence<j...>) {
  constexpr int n = Simd<C>::lanes;
  const Vec<C> x = a, y = b;
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector)
  a = __builtin_shufflevector(x, y, ((j & step) ? n + int(j) - step : int(j))...);
  b = __builtin_shufflevector(x, y, ((j & step) ? n + int(j) : int(j) + step)...);
#else
  ((a[j] = (j & step) ? y[(j - step) % n] : x[j], b[j] = (j & step) ? y[j] : x[(j + step) % n]),
   ...);
#endif
}
template <class C, int step = 1> INLINE void transpose(Vec<C>* rows) {
  constexpr int n = Simd<C>::lanes;
  if constexpr (step < n) {
    for (int i = 0; i < n; ++i)
      if (!(i & step)) exchange<C, step>(rows[i], rows[i + step], std::make_index_sequence<n>{});
    transpose<C, 2 * step>(rows);
  }
}

}  // namespace dwindle
